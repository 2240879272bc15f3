package batch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Input reads the lines of a batch. It belongs to one goroutine.
type Input struct {
	in     *bufio.Reader
	most   int // bytes of a line
	number int
	seen   map[key]bool // custom_ids
	ended  bool
}

// NewInput reads lines of at most so many bytes.
func NewInput(r io.Reader, most int) *Input {
	return &Input{in: bufio.NewReaderSize(r, 1<<16), most: most, seen: map[key]bool{}}
}

// byteOrderMark is what some editors put in front of a text in UTF-8.
const byteOrderMark = "\uFEFF"

// Next returns the next line that is not blank. Its error, if it has one, is in the job. At the
// end the error is io.EOF.
func (in *Input) Next() (*Job, error) {
	for !in.ended {
		text, tooLong, err := in.read()
		if err != nil && err != io.EOF {
			return nil, err
		}
		in.ended = err == io.EOF
		in.number++
		if in.number == 1 {
			text = bytes.TrimPrefix(text, []byte(byteOrderMark))
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		job := &Job{ID: ID(in.number, text), Size: len(text)}
		if tooLong {
			job.Line.CustomID = guessID(text)
			job.Err = &Error{Code: CodeRequest, Message: fmt.Sprintf("The line has more than %d bytes.", in.most)}
			return job, nil
		}
		if job.Line, job.Err = Parse(text); job.Err == nil {
			k := keyOf('c', job.Line.CustomID)
			if in.seen[k] {
				job.Err = &Error{CodeDuplicate, "An earlier line has the same custom_id.", "custom_id"}
			}
			in.seen[k] = true
		}
		return job, nil
	}
	return nil, io.EOF
}

// Number is that of the last line, from 1 on.
func (in *Input) Number() int { return in.number }

// read reads a line. The end of one that is too long is left out.
func (in *Input) read() (line []byte, tooLong bool, err error) {
	for {
		piece, err := in.in.ReadSlice('\n')
		if !tooLong {
			line = append(line, piece...)
			tooLong = len(bytes.TrimRight(line, "\r\n")) > in.most
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return line, tooLong, err
	}
}
