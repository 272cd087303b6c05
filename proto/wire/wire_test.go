package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
)

const (
	bad  = "{\"a\":\"Gr\xfcn\"}"
	good = "{\"a\":\"Gr\uFFFDn\"}"
)

// fill sets each field of a message, and of the messages in it, to a text. choice selects the field of a oneof.
func fill(m protoreflect.Message, text string, choice int) {
	scalar := func(field protoreflect.FieldDescriptor) (protoreflect.Value, bool) {
		switch field.Kind() {
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(text), true
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes([]byte(text)), true
		default:
			return protoreflect.Value{}, false
		}
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if oneof := field.ContainingOneof(); oneof != nil && oneof.Fields().Get(choice%oneof.Fields().Len()) != field {
			continue
		}
		switch {
		case field.IsMap():
			if value, ok := scalar(field.MapValue()); ok {
				m.Mutable(field).Map().Set(protoreflect.ValueOfString(text).MapKey(), value)
			}
		case field.IsList() && field.Message() != nil:
			fill(m.Mutable(field).List().AppendMutable().Message(), text, choice)
		case field.IsList():
			if value, ok := scalar(field); ok {
				m.Mutable(field).List().Append(value)
			}
		case field.Message() != nil:
			fill(m.Mutable(field).Message(), text, choice)
		default:
			if value, ok := scalar(field); ok {
				m.Set(field, value)
			}
		}
	}
}

// Each text and each JSON object of each message arrives, with U+FFFD in the place of what is not UTF-8.
// Rule (protocol.md#rules): Bytes outside UTF-8 are replaced in each text and each JSON object of the protocol.
func TestTextsThatAreNotUTF8AreReplaced(t *testing.T) {
	t.Parallel()
	messages := deployerv1.File_pergola_deployer_v1_deployer_proto.Messages()
	for i := range messages.Len() {
		name := messages.Get(i).FullName()
		kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for choice := range messages.Get(i).Fields().Len() {
			sent, want, got := kind.New(), kind.New(), kind.New()
			fill(sent, bad, choice)
			fill(want, good, choice)
			data, err := wire.Codec().Marshal(sent.Interface())
			if err == nil {
				err = wire.Codec().Unmarshal(data, got.Interface())
			}
			if diff := cmp.Diff(want.Interface(), got.Interface(), protocmp.Transform()); err != nil || diff != "" {
				t.Errorf("%s: error %v, (-want +got):\n%s", name, err, diff)
			}
		}
	}
}

// Bytes that are no JSON object, such as certificates, and messages of others stay as they are.
func TestBytesThatAreNoDocumentsStay(t *testing.T) {
	t.Parallel()
	sent := &deployerv1.ChartRepositoryCredentials{CaData: []byte("\xff{")}
	other := &deployerv1.ChartRepositoryCredentials{}
	data, err := wire.Codec().Marshal(sent)
	if err == nil {
		err = wire.Codec().Unmarshal(data, other)
	}
	if err != nil || string(other.GetCaData()) != "\xff{" {
		t.Errorf("expected the bytes as they were, but found %q, error %v", other.GetCaData(), err)
	}
	data, err = wire.Codec().Marshal(wrapperspb.Bytes([]byte(bad)))
	if err != nil || !bytes.Contains(data.Materialize(), []byte(bad)) {
		t.Errorf("expected the bytes of another protocol as they were, but found %q, error %v", data.Materialize(), err)
	}
}

// The error about a message of a plugin that does not replace such texts names the field.
func TestErrorNamesTheField(t *testing.T) {
	t.Parallel()
	data, err := proto.Marshal(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{
		Result: &deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: &deployerv1.Failed{
			Errors: []*deployerv1.Error{{Message: "Gruen"}},
		}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.ReplaceAll(data, []byte("ue"), []byte("\xfc\xff"))
	err = wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &deployerv1.PluginMessage{})
	if err == nil || !strings.Contains(err.Error(), "pergola.deployer.v1.Error.message contains invalid UTF-8") {
		t.Errorf("expected an error that names the field, but found %v", err)
	}
	if err = wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer("\xff")}, &deployerv1.PluginMessage{}); err == nil {
		t.Error("expected an error for what is no message")
	}
}
