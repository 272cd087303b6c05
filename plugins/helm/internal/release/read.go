package release

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// maxUnpacked bounds the content of a revision. The API server bounds it as well, but packed.
const maxUnpacked = 64 << 20

// ReasonUnreadable is given to the error about a revision that cannot be read.
const ReasonUnreadable = "ReleaseUnreadable"

// ErrUnreadable says that a revision is stored, but cannot be read. Helm cannot read it either, or it is beyond the
// limits.
var ErrUnreadable = errors.New("the stored release cannot be read")

// Stored is what a revision is, as far as it matters here. Its values are not.
type Stored struct {
	// Revision is its number.
	Revision int
	Status   Status
	Chart    helm.Metadata
	// Objects are those of its manifest: what Helm has created, without hooks and what is in the folder crds of the
	// chart. One that stands for several, such as a List, is one here.
	Objects []helm.Object
}

// Read returns a revision of a release, with one request. The error is an explained one, see target.Explain, also if
// there is no such revision; it is an ErrUnreadable if the revision is damaged.
func Read(ctx context.Context, client *target.Client, name helm.Release, revision int) (*Stored, error) {
	secret, err := client.Objects(secrets, name.Namespace).Get(ctx, secretName(name.Name, revision), metav1.GetOptions{})
	if err != nil {
		err = fmt.Errorf("read revision %d of %s: %w", revision, describe(name), err)
		return nil, target.Explain(client.Host, notPermitted(name, err))
	}
	stored, err := readSecret(secret)
	if err != nil {
		return nil, &sdk.Error{Reason: ReasonUnreadable, Err: fmt.Errorf(
			"read revision %d of %s: %w; mend Secret %s in namespace %s, or delete it, and the revision before it counts",
			revision, describe(name), err, secret.GetName(), name.Namespace)}
	}
	stored.Revision = revision
	return stored, nil
}

func readSecret(secret *unstructured.Unstructured) (*Stored, error) {
	text, _, err := unstructured.NestedString(secret.Object, "data", "release")
	if err != nil {
		return nil, fmt.Errorf("%w: data.release is no text", ErrUnreadable)
	}
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: data.release is no base64", ErrUnreadable)
	}
	return decode(content, maxUnpacked)
}

// document is the part of what Helm stores that is read.
type document struct {
	Info struct {
		Status Status `json:"status"`
	} `json:"info"`
	Chart struct {
		Metadata struct {
			Name       string `json:"name"`
			Version    string `json:"version"`
			AppVersion string `json:"appVersion"`
		} `json:"metadata"`
	} `json:"chart"`
	Manifest string `json:"manifest"`
}

// decode reads what Helm has encoded: JSON, gzipped but for what is older than that, in base64. Nothing of the content
// gets into errors.
func decode(content []byte, limit int64) (*Stored, error) {
	packed, err := base64.StdEncoding.DecodeString(string(content))
	if err != nil {
		return nil, fmt.Errorf("%w: it is no base64", ErrUnreadable)
	}
	unpacked, err := unpack(packed, limit)
	if err != nil {
		return nil, err
	}
	var d document
	if err := json.Unmarshal(unpacked, &d); err != nil {
		return nil, fmt.Errorf("%w: it is not the JSON of a release", ErrUnreadable)
	}
	objects, err := split(d.Manifest)
	if err != nil {
		return nil, err
	}
	return &Stored{Status: d.Info.Status, Chart: helm.Metadata(d.Chart.Metadata), Objects: objects}, nil
}

func unpack(packed []byte, limit int64) ([]byte, error) {
	if len(packed) <= 3 || !bytes.HasPrefix(packed, []byte{0x1f, 0x8b, 0x08}) {
		return packed, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be unpacked", ErrUnreadable)
	}
	unpacked, err := io.ReadAll(io.LimitReader(reader, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: it cannot be unpacked", ErrUnreadable)
	case int64(len(unpacked)) > limit:
		return nil, fmt.Errorf("%w: it has more than %d bytes when it is unpacked", ErrUnreadable, limit)
	default:
		return unpacked, nil
	}
}
