package component_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
)

// limit is enough for all sets here.
const limit = 1 << 20

var chart = []byte("a packed chart")

// set are the files of an artifact set with a chart. They can be changed.
func set(t helper, separator string) map[string][]byte {
	t.Helper()
	manifest := object{"config": blob("a/b", nil), "layers": []object{blob(provenanceType, []byte("prov")), blob(helmType, chart)}}.json(t)
	index := object{
		"manifests": []object{blob(ocispec.MediaTypeImageManifest, manifest)}, "annotations": object{"software.ocm/main": digest.FromBytes(manifest)},
	}
	return map[string][]byte{
		"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`), "index.json": index.json(t),
		nameOf(separator, manifest): manifest, nameOf(separator, chart): chart, nameOf(separator, []byte("prov")): []byte("prov"),
	}
}

func nameOf(separator string, content []byte) string {
	return "blobs/sha256" + separator + digest.FromBytes(content).Encoded()
}

func packed(t helper, files map[string][]byte, more ...file) []byte {
	t.Helper()
	var all []file
	for name, content := range files { // in any order
		all = append(all, file{name: name, content: content})
	}
	return tarOf(t, append(all, more...)...)
}

func readSet(content []byte) (*component.Unpacked, error) {
	return component.ReadArtifactSet(bodyOf(bytes.NewReader(content)), limit, (*component.Manifest).ChartLayer)
}

func TestReadArtifactSet(t *testing.T) {
	t.Parallel()
	withIndex := func(separator string, change func(index []byte) (name string, document []byte)) []byte {
		files := set(t, separator)
		name, document := change(files["index.json"])
		delete(files, "index.json")
		files[name] = document
		return packed(t, files)
	}
	for name, content := range map[string][]byte{
		"dots":      packed(t, set(t, ".")),
		"slashes":   packed(t, set(t, "/")),
		"gzip":      zipped(t, packed(t, set(t, "."))),
		"old index": withIndex(".", func(index []byte) (string, []byte) { return "artifact-descriptor.json", index }),
		"old annotation": withIndex(".", func(index []byte) (string, []byte) {
			return "./index.json", bytes.Replace(index, []byte("software.ocm/main"), []byte("cloud.gardener.ocm/main"), 1)
		}),
		"only manifest": withIndex("/", func(index []byte) (string, []byte) {
			return "/index.json", bytes.Replace(index, []byte("software.ocm/main"), []byte("other"), 1)
		}),
		"directories and links": append(tarOf(t, file{name: "blobs/", header: tar.Header{Typeflag: tar.TypeDir}},
			file{name: "index.json", header: tar.Header{Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}})[:1024], packed(t, set(t, "."))...),
		"the first counts": packed(t, set(t, "."), file{name: "index.json", content: []byte("{}")}, file{name: nameOf(".", chart), content: []byte("other")}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := readSet(content)
			must(t, err)
			if !bytes.Equal(found.Content, chart) || found.Layer.MediaType != helmType || !strings.Contains(string(found.Manifest), helmType) {
				t.Errorf("found %+v", found)
			}
		})
	}
}

func TestReadArtifactSetRefuses(t *testing.T) {
	t.Parallel()
	changed := func(change func(files map[string][]byte)) []byte {
		files := set(t, ".")
		change(files)
		return packed(t, files)
	}
	index := func(document object) []byte {
		return changed(func(files map[string][]byte) { files["index.json"] = document.json(t) })
	}
	nested := object{"manifests": []object{}}.json(t)
	bomb := zipped(t, make([]byte, 32<<20))
	whole := packed(t, set(t, "."))
	for name, c := range map[string]struct {
		content []byte
		says    string
	}{
		"empty":            {nil, "the artifact set has no index.json"},
		"no index":         {changed(func(files map[string][]byte) { delete(files, "index.json") }), "the artifact set has no index.json"},
		"index, no JSON":   {changed(func(files map[string][]byte) { files["index.json"] = []byte("hunter2") }), "the artifact set has no index.json"},
		"several":          {index(object{"manifests": []object{blob("a/b", nil), blob("a/b", nil)}}), "has 2 manifests, but expected one"},
		"digest of main":   {index(object{"manifests": []object{{"digest": "x"}}}), "has 1 manifests, but expected one"},
		"no main manifest": {index(object{"manifests": []object{blob("a/b", []byte("x"))}}), "the main manifest of the artifact set, sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881, is not in it"},
		"no manifest": {
			changed(func(files map[string][]byte) {
				files["index.json"] = object{"manifests": []object{blob("a/b", chart)}}.json(t)
			}), "expected a manifest of a registry, but found something else",
		},
		"an index in it": {
			changed(func(files map[string][]byte) {
				files["index.json"] = object{"manifests": []object{blob("a/b", nested)}}.json(t)
				files[nameOf(".", nested)] = nested
			}), "the main manifest of the artifact set is an index",
		},
		"no layer":        {changed(func(files map[string][]byte) { delete(files, nameOf(".", chart)) }), "the layer of the artifact set, sha256:"},
		"wrong digest":    {changed(func(files map[string][]byte) { files[nameOf(".", chart)] = []byte("other") }), "the layer of the artifact set has the digest sha256:d9298a10"},
		"blobs too large": {changed(func(files map[string][]byte) { files[nameOf(".", []byte("x"))] = make([]byte, limit) }), "the artifact set is larger than the"},
		"index too large": {changed(func(files map[string][]byte) { files["index.json"] = make([]byte, 1<<20+1) }), "index.json of the artifact set is larger than"},
		"sparse":          {sparse(t, nameOf(".", chart)), "the artifact set is larger than the"},
		"bomb":            {bomb, "the artifact set has no index.json"}, // two blocks of zeros end a tar
		"large file":      {zipped(t, tarOf(t, file{name: "x", content: make([]byte, 32<<20)})), "the artifact set is larger than the 1048576 bytes"},
		"many files":      {many(t, 2000), "has more than the 1000 entries that are allowed"},
		"truncated":       {whole[:300], "the artifact set cannot be read as a tar: unexpected EOF"},
		"no tar":          {[]byte(strings.Repeat("hunter2", 100)), "the artifact set cannot be read as a tar"},
		"no gzip":         {[]byte("\x1f\x8bhunter2"), "the artifact set cannot be uncompressed"},
		"end of gzip":     {zipped(t, whole)[:300], "the artifact set cannot be read as a tar: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readSet(c.content)
			refused(t, err, c.says)
		})
	}
}

func many(t helper, n int) []byte {
	t.Helper()
	files := make([]file, n)
	for at := range files {
		files[at].name = fmt.Sprintf("x%d", at)
	}
	return tarOf(t, files...)
}

// bodyOf is the body of a download; its errors are temporary.
func bodyOf(from io.Reader) fetch.Body {
	return fetch.Body{From: from, Explain: func(err error) error { return fetch.Errorf(fetch.Unavailable, "%w", err) }}
}

// TestReadArtifactSetKeepsErrors: who fetches a set knows best whether to try again.
func TestReadArtifactSetKeepsErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("the connection has broken off")
	whole := packed(t, set(t, "."))
	for _, content := range [][]byte{nil, whole[:600], zipped(t, whole)[:5], zipped(t, whole)[:200]} {
		_, err := component.ReadArtifactSet(bodyOf(io.MultiReader(bytes.NewReader(content), iotest.ErrReader(broken))), limit, (*component.Manifest).ChartLayer)
		if !errors.Is(err, broken) || fetch.Explain(err).Kind != fetch.Unavailable {
			t.Errorf("after %d bytes: found %v", len(content), err)
		}
	}
	_, err := component.ReadArtifactSet(bodyOf(bytes.NewReader(whole)), limit, func(*component.Manifest) (ocispec.Descriptor, error) { return ocispec.Descriptor{}, broken })
	if !errors.Is(err, broken) {
		t.Errorf("found %v", err)
	}
}

// FuzzReadArtifactSet: what is read is a blob of the set that has its digest.
func FuzzReadArtifactSet(f *testing.F) {
	for _, content := range [][]byte{packed(f, set(f, ".")), zipped(f, packed(f, set(f, "/"))), sparse(f, nameOf(".", chart)), nil} {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		found, err := readSet(content)
		switch {
		case err != nil && (!errors.As(err, new(*fetch.Error)) || len(err.Error()) > 1000):
			t.Errorf("found %v", err)
		case err == nil && (found.Layer.Digest.Algorithm().FromBytes(found.Content) != found.Layer.Digest || len(found.Content) > limit):
			t.Errorf("found %d bytes that are not %v", len(found.Content), found.Layer)
		}
	})
}
