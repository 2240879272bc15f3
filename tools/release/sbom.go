package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// billOfMaterials lists the modules that a binary is built from, as CycloneDX 1.6 in JSON.
// The modules come from the binary itself, so the list is exactly what was linked. Its
// serial number is derived from the binary.
func billOfMaterials(version string, p platform, binary []byte, m *modules, date time.Time) ([]byte, error) {
	sum := sha256.Sum256(binary)
	bom := cdx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + uuidOf(sum)
	root := cdx.Component{
		BOMRef: "weir", Type: cdx.ComponentTypeApplication, Name: "weir", Version: version,
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: &[]cdx.Property{
			{Name: "cdx:gomod:build:env:CGO_ENABLED", Value: "0"}, {Name: "cdx:gomod:build:env:GOARCH", Value: p.arch}, {Name: "cdx:gomod:build:env:GOOS", Value: p.os},
		},
	}
	bom.Metadata = &cdx.Metadata{Timestamp: date.Format(time.RFC3339), Component: &root}

	components := []cdx.Component{{BOMRef: "pkg:golang/std@" + m.goVersion, Type: cdx.ComponentTypeLibrary, Name: "std", Version: m.goVersion,
		PackageURL: "pkg:golang/std@" + m.goVersion, Scope: cdx.ScopeRequired}}
	for _, d := range m.deps {
		c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: d.Path, Version: d.Version, Scope: cdx.ScopeRequired,
			PackageURL: "pkg:golang/" + strings.ToLower(d.Path) + "@" + d.Version + "?type=module"}
		c.BOMRef = c.PackageURL
		hash, err := moduleHash(d.Sum)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Path, err)
		}
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hash}}
		components = append(components, c)
	}
	bom.Components = &components
	refs := make([]string, len(components))
	for i := range components {
		refs[i] = components[i].BOMRef
	}
	bom.Dependencies = &[]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &refs}}

	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	if err := encoder.EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// moduleHash is the hash of a module's files in hexadecimal, given its line in go.sum.
func moduleHash(sum string) (string, error) {
	text, ok := strings.CutPrefix(sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("the sum %q is not of the form h1:…", sum)
	}
	return hex.EncodeToString(raw), nil
}

// uuidOf makes a UUID of the form for names (version 8, RFC 9562) from a hash.
func uuidOf(sum [sha256.Size]byte) string {
	b := sum[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return uuid.UUID(b).String() // b has 16 bytes
}
