package main

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// badText stands for a text that is no UTF-8. It has the length of what takes its place on the wire: no library lets such a text into a
// message.
const badText = "(no UTF-8)"

var badBytes = bytes.Repeat([]byte{0xff}, len(badText))

// corrupting is gRPC's codec, but for badText.
type corrupting struct{}

var _ encoding.CodecV2 = corrupting{}

// Marshal puts bytes into texts that must not be there.
func (corrupting) Marshal(v any) (mem.BufferSlice, error) {
	out, err := encoding.GetCodecV2(proto.Name).Marshal(v)
	if err != nil {
		return nil, err
	}
	defer out.Free()
	return mem.BufferSlice{mem.SliceBuffer(bytes.ReplaceAll(out.Materialize(), []byte(badText), badBytes))}, nil
}

// Unmarshal is that of the codec.
func (corrupting) Unmarshal(data mem.BufferSlice, v any) error {
	return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
}

// Name is that of the codec.
func (corrupting) Name() string { return proto.Name }
