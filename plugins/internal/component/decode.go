package component

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/plugins/internal/boundedyaml"
)

var errForm = errors.New("it does not have the form of one")

// decode reads a document, YAML or JSON, and returns it as JSON, too. Errors are clauses about "it" without its
// values.
func decode(document []byte, into any) (content []byte, err error) {
	if content, err = boundedyaml.ToJSON(document); err != nil {
		return nil, err
	}
	return content, unmarshal(content, into)
}

// unmarshal reads JSON, with errors as those of decode.
func unmarshal(content []byte, into any) error {
	err := kjson.UnmarshalCaseSensitivePreserveInts(content, into)
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case err == nil:
		return nil
	case !ok || wrong.Field == "":
		return errForm
	case wrong.Type.Kind() == reflect.String:
		return fmt.Errorf("its field %s is of the type %s, but expected a text, which may have to be put in quotes",
			wrong.Field, wrong.Value)
	default:
		return fmt.Errorf("its field %s is of the wrong type (%s)", wrong.Field, wrong.Value)
	}
}
