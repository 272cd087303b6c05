// Package wire writes and reads the messages of the protocol, on both sides of each connection.
package wire

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that Codec extends
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// Codec returns gRPC's codec for protobuf with two additions: Marshal replaces invalid UTF-8 in the texts and JSON
// objects of a message of the protocol, in place; the error of Unmarshal names the field.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(proto.Message); ok {
		// The bytes of go-plugin's own messages are no documents.
		if r := m.ProtoReflect(); r.Descriptor().ParentFile() == deployerv1.File_pergola_deployer_v1_deployer_proto {
			clean(r)
		}
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	m, ok := v.(proto.Message)
	if err == nil || !ok {
		return err
	}
	// The error of generated code does not name the field, that of a dynamic message does.
	dynamic := dynamicpb.NewMessage(m.ProtoReflect().Descriptor())
	if named := proto.Unmarshal(data.Materialize(), dynamic); named != nil {
		return named
	}
	return err
}

// clean replaces invalid UTF-8 in all fields of a message.
func clean(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			cleanMap(field, value.Map())
		case field.IsList():
			list := value.List()
			for i := range list.Len() {
				if cleaned, changed := cleanValue(field, list.Get(i)); changed {
					list.Set(i, cleaned)
				}
			}
		default:
			if cleaned, changed := cleanValue(field, value); changed {
				m.Set(field, cleaned)
			}
		}
		return true
	})
}

func cleanMap(field protoreflect.FieldDescriptor, entries protoreflect.Map) {
	var keys []protoreflect.MapKey
	entries.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	for _, key := range keys {
		value, valueChanged := cleanValue(field.MapValue(), entries.Get(key))
		cleaned, keyChanged := cleanValue(field.MapKey(), key.Value())
		if keyChanged {
			entries.Clear(key)
		}
		if keyChanged || valueChanged {
			entries.Set(cleaned.MapKey(), value)
		}
	}
}

// cleanValue returns the replacement for a value, and reports whether it differs.
func cleanValue(field protoreflect.FieldDescriptor, value protoreflect.Value) (protoreflect.Value, bool) {
	switch field.Kind() { //nolint:exhaustive // the others are no texts
	case protoreflect.StringKind:
		if text := value.String(); !utf8.ValidString(text) {
			return protoreflect.ValueOfString(strings.ToValidUTF8(text, "\uFFFD")), true
		}
	case protoreflect.BytesKind:
		// In a valid JSON object such bytes are within texts. Other bytes are not the protocol's, such as certificates.
		if document := value.Bytes(); !utf8.Valid(document) && bytes.HasPrefix(bytes.TrimSpace(document), []byte("{")) {
			return protoreflect.ValueOfBytes(bytes.ToValidUTF8(document, []byte("\uFFFD"))), true
		}
	case protoreflect.MessageKind:
		clean(value.Message())
	}
	return value, false
}

// Each converts the elements of a list; nil for none.
func Each[In, Out any](in []In, convert func(In) Out) []Out {
	var out []Out
	for _, element := range in {
		out = append(out, convert(element))
	}
	return out
}

// ServerOptions are those of a plugin's server.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(Codec()),
		grpc.MaxRecvMsgSize(handshake.MaxMessageBytes),
		grpc.MaxSendMsgSize(handshake.MaxMessageBytes),
		grpc.InitialWindowSize(handshake.WindowBytes),
		grpc.InitialConnWindowSize(4 * handshake.WindowBytes),
	}
}

// DialOptions are those of a host's client.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(Codec()),
			grpc.MaxCallRecvMsgSize(handshake.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(handshake.MaxMessageBytes),
		),
		grpc.WithInitialWindowSize(handshake.WindowBytes),
		grpc.WithInitialConnWindowSize(4 * handshake.WindowBytes),
	}
}
