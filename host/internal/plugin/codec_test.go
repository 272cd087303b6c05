package plugin

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// field is a field with bytes on the wire: a message, a text or bytes.
func field(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

func TestCodecBoundsFields(t *testing.T) {
	t.Parallel()
	const many = maxFields + 1
	const tooMany = "more than 10000 fields"
	emptyError := field(1, nil)
	group := protowire.AppendTag(protowire.AppendTag(nil, 99, protowire.StartGroupType), 99, protowire.EndGroupType)
	for name, test := range map[string]struct {
		reason string
		into   proto.Message
		text   []byte
		want   string // empty if it is taken
	}{
		"empty":            {"a message without content is one", &deployerv1.Failed{}, nil, ""},
		"as many as may":   {"a bound is no mistake", &deployerv1.Failed{}, bytes.Repeat(emptyError, maxFields), ""},
		"one too many":     {"the bound counts", &deployerv1.Failed{}, bytes.Repeat(emptyError, many), tooMany},
		"in a message":     {"what is in it takes memory, too", &deployerv1.Result{}, field(3, bytes.Repeat(emptyError, maxFields)), tooMany},
		"in many messages": {"all of them count together", &deployerv1.Failed{}, bytes.Repeat(field(1, bytes.Repeat(field(1, nil), 99)), 101), tooMany},
		"texts":            {"each is a string", &deployerv1.Error{}, bytes.Repeat(field(1, nil), many), tooMany},
		"map":              {"each entry and its key are fields", &deployerv1.GetInfoResponse{}, bytes.Repeat(field(7, field(1, []byte("k"))), maxFields/2+1), tooMany},
		"unknown":          {"a newer plugin says little that is unknown", &deployerv1.Heartbeat{}, bytes.Repeat(field(99, nil), many), tooMany},
		"groups":           {"they are unknown", &deployerv1.Heartbeat{}, bytes.Repeat(group, many), tooMany},
		"large bytes":      {"a document is one field, whatever is in it", &deployerv1.Succeeded{}, field(1, bytes.Repeat(emptyError, 1<<20)), ""},
		"cut tag":          {"it is no message", &deployerv1.Failed{}, []byte{0x80}, "parse field"},
		"cut value":        {"it is no message", &deployerv1.Failed{}, field(1, []byte("text"))[:3], "parse field 1"},
		"cut inside":       {"what is in it is no message", &deployerv1.Failed{}, field(1, []byte{0x80}), "parse field"},
		"end of no group":  {"it is no message", &deployerv1.Failed{}, protowire.AppendTag(nil, 1, protowire.EndGroupType), "parse field 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := codec().Unmarshal(inPieces(test.text), test.into)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, err)
			}
			if test.want != "" && proto.Size(test.into) > 0 {
				t.Errorf("%s: it was read all the same", test.reason)
			}
		})
	}
}

// Counting is to save memory, so it takes none, and a huge message costs no more than one with a single field too many.
func TestCodecCountsWithoutMemory(t *testing.T) {
	huge := bytes.Repeat(field(1, field(4, []byte("m"))), 1<<20)
	descriptor := (&deployerv1.Failed{}).ProtoReflect().Descriptor()
	counted, err := countFields(huge, descriptor, 0)
	if err == nil || counted != maxFields+1 {
		t.Errorf("expected it to stop at field %d, but found %d: %v", maxFields+1, counted, err)
	}
	small := huge[:len(huge)>>10]
	if allocations := testing.AllocsPerRun(10, func() { counted, err = countFields(small, descriptor, 0) }); allocations > 0 || err != nil || counted != 2<<10 {
		t.Errorf("expected %d fields without an allocation, but found %d and %g (%v)", 2<<10, counted, allocations, err)
	}
}

// inPieces is a message as it comes over the network.
func inPieces(text []byte) mem.BufferSlice {
	half := len(text) / 2
	return mem.BufferSlice{mem.SliceBuffer(text[:half]), mem.SliceBuffer(text[half:])}
}

func TestCodecChangesNoOrdinaryMessage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, document := rapid.String(), rapid.SliceOf(rapid.Byte())
		failed := &deployerv1.Failed{}
		for range rapid.IntRange(0, 50).Draw(t, "errors") {
			failed.Errors = append(failed.Errors, &deployerv1.Error{
				Codes: rapid.SliceOf(text).Draw(t, "codes"), Operation: text.Draw(t, "operation"), Message: text.Draw(t, "message"),
			})
		}
		for _, message := range []proto.Message{
			result(&deployerv1.Result{
				ProviderStatus: document.Draw(t, "status"), Outcome: &deployerv1.Result_Failed{Failed: failed},
			}),
			succeeded(document.Draw(t, "exports")),
			progress(text.Draw(t, "step"), text.Draw(t, "message")),
			&deployerv1.GetInfoResponse{
				Name: text.Draw(t, "name"), DeployItemTypes: rapid.SliceOf(text).Draw(t, "types"),
				ProviderConfigurationSchemas: rapid.MapOf(text, document).Draw(t, "schemas"),
			},
		} {
			wire, err := codec().Marshal(message)
			if err != nil {
				t.Fatal(err)
			}
			got := message.ProtoReflect().New().Interface()
			if err := codec().Unmarshal(wire, got); err != nil || !proto.Equal(got, message) {
				t.Fatalf("expected %v, but found %v (%v)", message, got, err)
			}
		}
	})
}

// What the codec takes is what gRPC's own takes, unless there are too many fields.
func FuzzCodec(f *testing.F) {
	f.Add(field(3, field(1, field(1, []byte("code")))))
	f.Add([]byte{0x80})
	f.Add(bytes.Repeat(field(1, nil), maxFields+1))
	f.Fuzz(func(t *testing.T, text []byte) {
		want, got := &deployerv1.Result{}, &deployerv1.Result{}
		wantErr, err := proto.Unmarshal(text, want), codec().Unmarshal(inPieces(text), got)
		_, tooMany := countFields(text, want.ProtoReflect().Descriptor(), 0)
		if (err == nil) != (wantErr == nil && tooMany == nil) {
			t.Errorf("expected an error as %v or %v, but found: %v", wantErr, tooMany, err)
		}
		if err == nil && !proto.Equal(want, got) {
			t.Errorf("expected %v, but found %v", want, got)
		}
	})
}
