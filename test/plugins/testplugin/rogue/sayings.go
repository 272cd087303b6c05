package rogue

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

const (
	// badText stands for a text that is no UTF-8. It has the length of what takes its place on the wire: no library
	// lets such a text into a message.
	badText = "(no UTF-8)"

	heartbeat = `heartbeat {}`
	succeeds  = `result { succeeded { exports: '{}' } }`
)

// sayings are the messages that a call consists of. The empty one is as it should be.
var sayings = map[string][]string{
	"":             {succeeds},
	"no-result":    {},
	"two-results":  {succeeds, `result { failed { errors { message: "no, it failed" } } }`},
	"bad-progress": {`progress { step: "` + badText + `" message: "` + badText + `" }`, succeeds},
	"json-exports": {`result { succeeded { exports: '{"apiVersion":' } }`},
	"json-status":  {`provider_status { sequence: 1 document: '{"apiVersion":' }`, succeeds},
}

// corrupting is gRPC's codec, but for badText.
type corrupting struct{ encoding.CodecV2 }

// Marshal puts bytes into texts that must not be there.
func (c corrupting) Marshal(v any) (mem.BufferSlice, error) {
	out, err := c.CodecV2.Marshal(v)
	if err != nil {
		return nil, err
	}
	defer out.Free()
	badBytes := bytes.Repeat([]byte{0xff}, len(badText))
	return mem.BufferSlice{mem.SliceBuffer(bytes.ReplaceAll(out.Materialize(), []byte(badText), badBytes))}, nil
}
