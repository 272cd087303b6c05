package plugin

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxFields bounds the fields of one message, those of the messages in it included. A field of two bytes on the wire can take a hundred
// in memory, so the size of a message alone bounds nothing.
const maxFields = 10_000

// codec is that of gRPC, but refuses a message of more than maxFields fields before it takes memory for them. It is safe for concurrent use.
func codec() encoding.CodecV2 { return boundedCodec{encoding.GetCodecV2("proto")} }

type boundedCodec struct{ encoding.CodecV2 }

func (c boundedCodec) Unmarshal(data mem.BufferSlice, v any) error {
	text := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer text.Free()
	if message, ok := v.(proto.Message); ok { // else it is for the wrapped codec to refuse
		if _, err := countFields(text.ReadOnlyData(), message.ProtoReflect().Descriptor(), 0); err != nil {
			return err
		}
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{text}, v)
}

// countFields adds the fields of a message, and of the messages in it, to those that were counted before. It takes no memory, and stops at
// the first field that is one too many, which bounds the recursion, too. A packed list counts as one field: it grows eightfold at most.
func countFields(text []byte, message protoreflect.MessageDescriptor, counted int) (int, error) {
	for len(text) > 0 {
		if counted++; counted > maxFields {
			return counted, fmt.Errorf("the message has more than %d fields", maxFields)
		}
		number, wireType, tagSize := protowire.ConsumeTag(text)
		if tagSize < 0 {
			return counted, fmt.Errorf("parse field: %w", protowire.ParseError(tagSize))
		}
		valueSize := protowire.ConsumeFieldValue(number, wireType, text[tagSize:])
		if valueSize < 0 {
			return counted, fmt.Errorf("parse field %d: %w", number, protowire.ParseError(valueSize))
		}
		value := text[tagSize : tagSize+valueSize]
		text = text[tagSize+valueSize:]
		field := message.Fields().ByNumber(number)
		if wireType != protowire.BytesType || field == nil || field.Message() == nil {
			continue
		}
		content, _ := protowire.ConsumeBytes(value)
		var err error
		if counted, err = countFields(content, field.Message(), counted); err != nil {
			return counted, err
		}
	}
	return counted, nil
}
