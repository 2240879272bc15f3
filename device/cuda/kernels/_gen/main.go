// Command gen compiles the kernels to PTX with clang and writes ../ptx. It needs
// clang-22 (or CLANG) and no NVIDIA software. Each file starts with a line that
// names the hash of the sources, which go test holds against them.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Low PTX versions, so that old drivers take them: 7.0 is CUDA 11, 8.0 CUDA 12.0.
var flavours = []struct{ arch, feature string }{{"sm_80", "+ptx70"}, {"sm_90a", "+ptx80"}}

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "..", "folder of the kernels package")
	check := flag.Bool("check", false, "compare with what is there instead of writing")
	out := flag.String("out", "", "write plain PTX to this folder instead")
	flag.Parse()
	sum, err := sources(*dir)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range flavours {
		ptx, err := compile(*dir, f.arch, f.feature)
		if err != nil {
			log.Fatal(err)
		}
		ptx = append(fmt.Appendf(nil, "// weir kernels %s, sources %x\n", f.arch, sum), ptx...)
		path := filepath.Join(*dir, "ptx", f.arch+".ptx.gz")
		switch {
		case *out != "":
			err = os.WriteFile(filepath.Join(*out, f.arch+".ptx"), ptx, 0o644)
		case *check:
			err = same(path, ptx)
		default:
			err = write(path, ptx)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}

// sources is the hash of names and contents of everything in src.
func sources(dir string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(dir, "src", "*"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	h := sha256.New()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(f), len(b))
		h.Write(b)
	}
	return h.Sum(nil), nil
}

func compile(dir, arch, feature string) ([]byte, error) {
	clang := os.Getenv("CLANG")
	if clang == "" {
		clang = "clang-22"
	}
	cmd := exec.Command(clang, "-x", "cuda", "--cuda-device-only", "-S", "-O3", "-std=c++17", "-Wall", "-Wno-unused-function", "-Werror", "-ffp-contract=off",
		"-nocudainc", "-nocudalib", "-nogpulib", "--cuda-gpu-arch="+arch, "--cuda-feature="+feature, arch+".cu", "-o", "-")
	cmd.Dir = filepath.Join(dir, "src")
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

func write(path string, ptx []byte) error {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if _, err := z.Write(ptx); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func same(path string, ptx []byte) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return err
	}
	old, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	if !bytes.Equal(old, ptx) {
		return fmt.Errorf("%s is stale: make kernels", path)
	}
	return nil
}
