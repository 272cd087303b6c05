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

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// maxUnpacked bounds the content of a revision. The bound of the API server is for the packed content only.
const maxUnpacked = 64 << 20

// ReasonUnreadable is the reason of the error about an unreadable revision.
const ReasonUnreadable = helm.ReasonUnreadable

// ErrUnreadable is the error about a stored, but unreadable revision. Helm cannot read it either, or it is beyond the
// limits.
var ErrUnreadable = errors.New("the stored release cannot be read")

// Read returns the objects of a revision of a release, with one request: those created by Helm, without hooks and the
// folder crds of the chart. The error is an explained one, see target.Explain, also for a missing revision; it is an
// ErrUnreadable for a damaged one.
func Read(ctx context.Context, client *target.Client, name helm.Release, revision int) ([]helm.Object, error) {
	content, err := read(ctx, client, name, revision)
	if err != nil {
		return nil, err
	}
	found, err := unpack(content, name.Name, revision)
	if err != nil {
		return nil, unreadable(name, revision, err)
	}
	if len(found.Manifest) > largeManifest {
		select {
		case parsing <- struct{}{}:
			defer func() { <-parsing }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	objects, err := helm.ParseManifest("", found.Manifest)
	if err != nil {
		return nil, unreadable(name, revision, err)
	}
	return objects, nil
}

// largeManifest is the size of manifests to parse one at a time, whatever the number of jobs: a document made for it
// takes some hundred times its size in memory.
const largeManifest = 256 << 10

// parsing has room for one large manifest.
var parsing = make(chan struct{}, 1)

// ChartOf returns the name of the chart of a revision, as Read does.
func ChartOf(ctx context.Context, client *target.Client, name helm.Release, revision int) (string, error) {
	content, err := read(ctx, client, name, revision)
	if err != nil {
		return "", err
	}
	found, err := unpack(content, name.Name, revision)
	if err != nil {
		return "", unreadable(name, revision, err)
	}
	return found.Chart.Metadata.Name, nil
}

// stored has the needed fields of a revision's content.
type stored struct {
	Name     string `json:"name"`
	Version  int    `json:"version"`
	Manifest string `json:"manifest"`
	Chart    struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	} `json:"chart"`
}

func read(ctx context.Context, client *target.Client, name helm.Release, revision int) ([]byte, error) {
	key := secretName(name.Name, revision)
	secret, err := client.Core().Secrets(name.Namespace).Get(ctx, key, metav1.GetOptions{})
	if err != nil {
		err = fmt.Errorf("read revision %d of %s: %w", revision, describe(name), err)
		return nil, target.Explain(client.Host, notPermitted(name, err))
	}
	return secret.Data["release"], nil
}

func unreadable(name helm.Release, revision int, err error) error {
	return &sdk.Error{Reason: ReasonUnreadable, Err: fmt.Errorf(
		"read revision %d of %s: %w: %w; repair Secret %s in namespace %s, or delete it to fall back to the previous "+
			"revision", revision, describe(name), ErrUnreadable, err, secretName(name.Name, revision), name.Namespace)}
}

// unpack reads the encoding of Helm: JSON in base64, gzipped except in old releases. Unlike Helm's own driver it
// needs no more memory than the limits allow, even for malicious content, and refuses the content of another revision
// than in the Secret's name. Errors quote nothing of the content.
func unpack(content []byte, name string, revision int) (*stored, error) {
	reader := base64.NewDecoder(base64.StdEncoding, bytes.NewReader(content))
	if packed, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(content))); err == nil {
		reader = packed
	}
	unpacked, err := io.ReadAll(io.LimitReader(reader, maxUnpacked+1))
	switch {
	case err != nil:
		return nil, errors.New("it is no base64, or cannot be unpacked")
	case len(unpacked) > maxUnpacked:
		return nil, fmt.Errorf("it has more than %d bytes when it is unpacked", maxUnpacked)
	}
	found := &stored{}
	if err := json.Unmarshal(unpacked, found); err != nil {
		return nil, errors.New("it is not the JSON of a release")
	}
	if found.Name != name || found.Version != revision {
		return nil, errors.New("it is the content of another release or revision")
	}
	return found, nil
}
