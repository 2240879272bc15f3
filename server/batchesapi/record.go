package batchesapi

import (
	"slices"
	"strconv"

	"weir/auth"
	"weir/batch"
	"weir/internal/jsontext"
)

// Purposes of files.
const (
	purposeBatch  = "batch"
	purposeOutput = "batch_output"
)

// fileRow is a file without its content.
type fileRow struct {
	ID, Name, Purpose string
	Bytes             int64
	Chunks            int
	Created, Expires  int64  // Unix seconds; Expires 0: never
	User              string // whose key sent it

	// Of a file that was sent in parts: the id of the upload, and the parts in their order.
	Upload string
	Parts  []partRow
}

// append appends the file object.
func (f *fileRow) append(dst []byte) []byte {
	dst = jsontext.AppendString(append(dst, `{"id":`...), f.ID)
	dst = strconv.AppendInt(append(dst, `,"object":"file","bytes":`...), f.Bytes, 10)
	dst = strconv.AppendInt(append(dst, `,"created_at":`...), f.Created, 10)
	dst = appendTime(append(dst, `,"expires_at":`...), f.Expires)
	dst = jsontext.AppendString(append(dst, `,"filename":`...), f.Name)
	dst = jsontext.AppendString(append(dst, `,"purpose":`...), f.Purpose)
	return append(dst, `,"status":"processed","status_details":null}`...)
}

// appendTime appends a time, or null for 0.
func appendTime(dst []byte, seconds int64) []byte {
	if seconds == 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, seconds, 10)
}

// Statuses of uploads. completed and cancelled are those of batches, too.
const pending = "pending"

// uploadRow is a file that is sent in parts.
type uploadRow struct {
	ID, Name, Purpose, Status string
	Bytes                     int64 // that the file is to have
	Created, Expires          int64 // Unix seconds
	Seconds                   int64 // after which the file expires; 0: never
	User                      string
	Parts                     []partRow // that were sent; when it is completed, those of the file
}

// partRow is a part of an upload.
type partRow struct {
	ID     string
	Bytes  int64
	Chunks int
}

// open reports whether parts may be added.
func (u *uploadRow) open(now int64) bool { return u.Status == pending && now < u.Expires }

// stored are the bytes of the parts.
func (u *uploadRow) stored() (n int64) {
	for _, p := range u.Parts {
		n += p.Bytes
	}
	return n
}

// part returns where a part is among those of an upload; -1: it is none.
func (u *uploadRow) part(id string) int {
	return slices.IndexFunc(u.Parts, func(p partRow) bool { return p.ID == id })
}

// append appends the upload object, with its file if that is there.
func (u *uploadRow) append(dst []byte, file *fileRow) []byte {
	dst = jsontext.AppendString(append(dst, `{"id":`...), u.ID)
	dst = strconv.AppendInt(append(dst, `,"object":"upload","bytes":`...), u.Bytes, 10)
	dst = strconv.AppendInt(append(dst, `,"created_at":`...), u.Created, 10)
	dst = strconv.AppendInt(append(dst, `,"expires_at":`...), u.Expires, 10)
	dst = jsontext.AppendString(append(dst, `,"filename":`...), u.Name)
	dst = jsontext.AppendString(append(dst, `,"purpose":`...), u.Purpose)
	dst = append(jsontext.AppendString(append(dst, `,"status":`...), u.Status), `,"file":`...)
	if file == nil {
		return append(dst, "null}"...)
	}
	return append(file.append(dst), '}')
}

// Statuses of batches.
const (
	validating = "validating"
	inProgress = "in_progress"
	finalizing = "finalizing"
	completed  = "completed"
	failed     = "failed"
	expired    = "expired"
	cancelling = "cancelling"
	cancelled  = "cancelled"
)

// statuses are those that a batch goes through, in the order in which an object has their times.
var statuses = []string{inProgress, finalizing, completed, failed, expired, cancelling, cancelled}

// lineError is why a batch failed.
type lineError struct {
	batch.Error
	Line int
}

// counts are how many lines there are, how many have results, and what these have used.
type counts struct {
	Total, Completed, Failed int64
	Usage                    usage
}

// add counts the result of a line.
func (c *counts) add(failed bool, u usage) {
	if failed {
		c.Failed++
	} else {
		c.Completed++
	}
	c.Usage.add(u)
}

// batchRow is a batch.
type batchRow struct {
	ID, Endpoint, Input, Window string
	Metadata                    jsontext.RawMessage // an object, or null
	Status                      string
	Next                        string // what the status becomes when the files are written
	Created, Expires            int64
	Times                       map[string]int64 // when it got a status
	Counts                      counts
	Errors                      []lineError
	Output, ErrorFile           string // ids of the files of results
	HasOutput, HasErrors        bool   // they are there

	// Whose it is, for requests of its lines.
	Who              *auth.Identity
	Project, Address string
}

// ended reports whether nothing is to be done for the batch any more.
func (b *batchRow) ended() bool {
	switch b.Status {
	case completed, failed, expired, cancelled:
		return true
	}
	return false
}

// set gives the batch a status.
func (b *batchRow) set(status string, now int64) {
	b.Status = status
	if b.Times == nil {
		b.Times = map[string]int64{}
	}
	b.Times[status] = now
}

// append appends the batch object.
func (b *batchRow) append(dst []byte) []byte {
	text := func(name, value string, there bool) {
		dst = append(append(append(dst, `,"`...), name...), `":`...)
		if !there {
			dst = append(dst, "null"...)
			return
		}
		dst = jsontext.AppendString(dst, value)
	}
	dst = jsontext.AppendString(append(dst, `{"id":`...), b.ID)
	text("object", "batch", true)
	text("endpoint", b.Endpoint, true)
	dst = b.appendErrors(append(dst, `,"errors":`...))
	text("input_file_id", b.Input, true)
	text("completion_window", b.Window, true)
	text("status", b.Status, true)
	text("output_file_id", b.Output, b.HasOutput)
	text("error_file_id", b.ErrorFile, b.HasErrors)
	dst = strconv.AppendInt(append(dst, `,"created_at":`...), b.Created, 10)
	dst = strconv.AppendInt(append(dst, `,"expires_at":`...), b.Expires, 10)
	for _, s := range statuses {
		dst = appendTime(append(append(append(dst, `,"`...), s...), `_at":`...), b.Times[s])
	}
	dst = strconv.AppendInt(append(dst, `,"request_counts":{"total":`...), b.Counts.Total, 10)
	dst = strconv.AppendInt(append(dst, `,"completed":`...), b.Counts.Completed, 10)
	dst = strconv.AppendInt(append(dst, `,"failed":`...), b.Counts.Failed, 10)
	dst = b.Counts.Usage.append(append(dst, `},"usage":`...))
	dst = append(append(dst, `,"metadata":`...), b.Metadata...)
	return append(dst, '}')
}

func (b *batchRow) appendErrors(dst []byte) []byte {
	if len(b.Errors) == 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"object":"list","data":[`...)
	for i := range b.Errors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = b.Errors[i].Append(dst, b.Errors[i].Line)
	}
	return append(dst, "]}"...)
}
