// Package strange has messages for a plugin to take, or to refuse, in good order.
package strange

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

const (
	// straySequence is a sequence number without a question.
	straySequence = 1 << 40
	// futureField is the number of an unknown field.
	futureField protowire.Number = 1 << 20
)

// Openings are first messages of a call without a deploy item, by what they are.
func Openings() map[string][]*deployerv1.HostMessage {
	item := func(document string) []*deployerv1.HostMessage {
		return []*deployerv1.HostMessage{
			hostside.StartMessage(&deployerv1.Start{DeployItem: []byte(document), JobId: "job-1"}),
		}
	}
	return map[string][]*deployerv1.HostMessage{
		"an acknowledgement as the first message": {hostside.Acknowledgement(1, nil)},
		"a first message without content":         {{}},
		"no message at all":                       nil,
		"half a deploy item":                      item(`{"`),
		"a list as deploy item":                   item(`[]`),
	}
}

// Documents are not easily quoted.
func Documents() map[string]string {
	return map[string]string{
		"a byte outside of UTF-8": "{\"Gr\xfcn",
		// Wherever such texts are cut, one of them is cut within a character.
		"a long text":       `{"` + strings.Repeat("\u20ac", 8<<10),
		"another long text": `{"a` + strings.Repeat("\u20ac", 8<<10),
		"a third long text": `{"ab` + strings.Repeat("\u20ac", 8<<10),
	}
}

// Unknown are messages and fields of a later version, and answers without a question.
func Unknown() []*deployerv1.HostMessage {
	unknownKind, unknownField := &deployerv1.HostMessage{}, hostside.Acknowledgement(straySequence, nil)
	for _, m := range []proto.Message{unknownKind, unknownField} {
		field := protowire.AppendTag(nil, futureField, protowire.BytesType)
		m.ProtoReflect().SetUnknown(protowire.AppendString(field, "from a later version"))
	}
	unasked := &hostside.Error{Message: "this was not asked for"}
	return []*deployerv1.HostMessage{
		unknownKind, unknownField,
		hostside.TargetAnswer(straySequence, nil, unasked), hostside.CredentialsAnswer(straySequence, nil, unasked),
	}
}

// Large is a message of this size.
func Large(size int) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Acknowledgement{
		Acknowledgement: &deployerv1.Acknowledgement{Sequence: 1, Error: strings.Repeat("x", size)},
	}}
}

// Unusable are credentials without a use.
func Unusable() *sdk.Credentials {
	const problem = "the rules are being checked"
	return &sdk.Credentials{
		Registries:        []sdk.RegistryCredentials{{Secret: "conformance", Problem: problem}, {Problem: problem}},
		ChartRepositories: []sdk.ChartRepositoryCredentials{{Problem: problem}},
	}
}

// Field makes a document invalid.
const Field = "conformanceUnknownField"

// WithField returns a JSON object with the unknown field.
func WithField(document []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(document, &fields); err != nil {
		return nil, err
	}
	if fields == nil { // the document was null
		fields = map[string]json.RawMessage{}
	}
	fields[Field] = json.RawMessage("true")
	return json.Marshal(fields)
}
