package itemcache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// decodeList decodes a list, and each item of it by a function.
func decodeList(encoded io.Reader, item func(*json.Decoder) error) (meta metav1.ListMeta, err error) {
	d := json.NewDecoder(encoded)
	err = decodeObject(d, func(field json.Token) error {
		switch field {
		case "items":
			return decodeArray(d, item)
		case "metadata":
			return d.Decode(&meta)
		default:
			return d.Decode(&json.RawMessage{})
		}
	})
	if err == nil && meta.ResourceVersion == "" {
		err = errors.New("the answer of the API server is no list")
	}
	return meta, err
}

// decodeObject decodes the value of each field of an object by a function.
func decodeObject(d *json.Decoder, value func(field json.Token) error) error {
	if begin, err := d.Token(); err != nil {
		return err
	} else if begin != json.Delim('{') {
		return fmt.Errorf("expected an object, but found %v", begin)
	}
	for d.More() {
		field, err := d.Token()
		if err != nil {
			return err
		}
		if err := value(field); err != nil {
			return err
		}
	}
	_, err := d.Token() // }
	return err
}

func decodeArray(d *json.Decoder, element func(*json.Decoder) error) error {
	if begin, err := d.Token(); err != nil || begin == nil { // null
		return err
	} else if begin != json.Delim('[') {
		return fmt.Errorf("expected an array, but found %v", begin)
	}
	for d.More() {
		if err := element(d); err != nil {
			return err
		}
	}
	_, err := d.Token() // ]
	return err
}

// decoded is an item, or, if undecodable, its metadata with a job that no host finishes.
type decoded struct {
	*v1alpha1.DeployItem
	undecodable bool
}

// decodeItem returns the next item. It fails only where no metadata can be decoded.
func decodeItem(d *json.Decoder) (decoded, error) {
	item := &v1alpha1.DeployItem{}
	err := d.Decode(&wireItem{DeployItem: item, Metadata: wireMetadata{ObjectMeta: &item.ObjectMeta}})
	item.TypeMeta = metav1.TypeMeta{} // as in any item that a client reads
	switch {
	case err == nil:
		return decoded{DeployItem: item}, nil
	case item.ResourceVersion == "": // metadata comes before spec and status
		return decoded{}, err
	default:
		// A reconcile of this job reads the item and reports the error; other items are decoded as usual.
		bare := Slim(&v1alpha1.DeployItem{ObjectMeta: item.ObjectMeta, Spec: v1alpha1.DeployItemSpec{Type: item.Spec.Type}})
		bare.Status.JobID = "undecodable"
		return decoded{DeployItem: bare, undecodable: true}, nil
	}
}

// wireItem decodes an item without its managedFields.
type wireItem struct {
	*v1alpha1.DeployItem
	Metadata wireMetadata `json:"metadata"`
}

type wireMetadata struct {
	*metav1.ObjectMeta
	ManagedFields skipped `json:"managedFields"`
}

// skipped is a field of an item that is not decoded.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }
