package sdk

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/internal/document"
)

// DecodeConfig reads the provider configuration into a struct, strictly: an unknown field, a duplicate one, a wrong
// type and a missing configuration are errors, each with the path of its field, in an *Error with the code
// ERR_CONFIGURATION_PROBLEM. All of them are reported at once.
func (r *Request) DecodeConfig(into any) error {
	unknown, wrong, err := r.DecodeConfigPartly(into)
	if err != nil {
		return err
	}
	return misread(wrong, unknown)
}

// DecodeConfigLeniently is DecodeConfig for the successor of a deployer that ignores unknown fields: unknown and
// duplicate fields are no error. They are returned as texts with the path of the field, such as `unknown field
// "manifest"`, for a warning.
func (r *Request) DecodeConfigLeniently(into any) (unknown []string, err error) {
	fields, wrong, err := r.DecodeConfigPartly(into)
	if err == nil {
		err = misread(wrong, nil)
	}
	if err != nil {
		return nil, err
	}
	return wire.Each(fields, UnreadField.Text), nil
}

// DecodeConfigPartly is DecodeConfigLeniently for a deployer that checks more than types, and reports all problems at
// once: values of a wrong type are no error either. They are returned, and the struct has all others, and empty values
// in their places. ConfigurationProblems takes both results.
func (r *Request) DecodeConfigPartly(into any) (unread []UnreadField, wrong []Problem, err error) {
	if r.DeployItem.Spec.Config == nil || len(r.DeployItem.Spec.Config.Raw) == 0 {
		err := errors.New("spec.config: the provider configuration is missing")
		return nil, nil, configError(ReasonConfigMissing, err)
	}
	unread, wrong, err = decode(r.DeployItem.Spec.Config.Raw, into)
	if err != nil {
		return nil, nil, configError(ReasonConfigInvalid, fmt.Errorf("spec.config: %w", err))
	}
	return unread, wrong, nil
}

// DidYouMean returns a hint for the text about an unknown field of a document: "; did you mean updateStrategy?", if it
// is similar to one known field of the Go type, and nothing otherwise. into has the type of the document, path is that
// of the unknown field. DecodeConfig and its siblings give the same hint.
func DidYouMean(into any, path string) string { return document.DidYouMean(reflect.TypeOf(into), path) }

// DecodeStrictly reads a JSON document into a struct as Request.DecodeConfig does, and returns all problems: none, if
// all could be read.
func DecodeStrictly(config []byte, into any) []Problem {
	return problemsOf(document.Decode(config, into))
}

// DecodeConfig reads the document, YAML or JSON, into a struct with the defaults, and returns all problems: none, if
// all could be read. It is strict as Request.DecodeConfig is. What could be read is in the struct, so that its values
// can be checked in any case. An empty document leaves the struct as it is.
func (r *ConfigureRequest) DecodeConfig(into any) []Problem {
	if len(bytes.TrimSpace(r.Document)) == 0 {
		return nil
	}
	return problemsOf(document.DecodeText(r.Document, into))
}

// ConfigGroupVersionKind returns apiVersion and kind of the provider configuration; both are empty if it is missing
// or cannot be read.
func (r *Request) ConfigGroupVersionKind() (apiVersion, kind string) {
	if r.DeployItem.Spec.Config == nil {
		return "", ""
	}
	return document.GroupVersionKind(r.DeployItem.Spec.Config.Raw)
}

// misread returns the error about a partly unreadable configuration; nil without any problem.
func misread(wrong []Problem, unread []UnreadField) error {
	if len(wrong)+len(unread) == 0 {
		return nil
	}
	err := ConfigurationProblems(ReasonConfigInvalid, wrong, unread...)
	err.Operation = operationDecode
	return err
}

// operationDecode is the operation of errors about unreadable provider configurations.
const operationDecode = "DecodeConfig"

func configError(reason string, err error) error {
	return &Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
		Operation: operationDecode,
		Reason:    reason,
		Err:       err,
	}
}

func decode(config []byte, into any) (unread []UnreadField, wrong []Problem, err error) {
	unread, found, err := document.Decode(config, into)
	return unread, wire.Each(found, problemOf), err
}

// problemsOf lists what is wrong with a document.
func problemsOf(unknown []document.Unread, wrong []document.Problem, err error) []Problem {
	if err != nil {
		return []Problem{{Message: err.Error()}}
	}
	return append(wire.Each(wrong, problemOf), wire.Each(unknown, unreadProblem)...)
}

func problemOf(p document.Problem) Problem { return Problem{Field: p.Field, Message: p.Message()} }
