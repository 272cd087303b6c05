package component_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
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

// set are the files of an artifact set with a chart.
func set(t helper, separator string) map[string][]byte {
	t.Helper()
	layers := []object{blob(provenanceType, []byte("prov")), blob(helmType, chart)}
	manifest := object{"config": blob("a/b", nil), "layers": layers}.json(t)
	index := object{
		"manifests":   []object{blob(ocispec.MediaTypeImageManifest, manifest)},
		"annotations": object{"software.ocm/main": digest.FromBytes(manifest)},
	}
	return map[string][]byte{
		"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`), "index.json": index.json(t),
		nameOf(separator, manifest): manifest, nameOf(separator, chart): chart,
		nameOf(separator, []byte("prov")): []byte("prov"),
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
	// withIndex has the index under another name, and with another annotation.
	withIndex := func(separator, name, annotation string) []byte {
		files := set(t, separator)
		index := bytes.Replace(files["index.json"], []byte("software.ocm/main"), []byte(annotation), 1)
		delete(files, "index.json")
		return packed(t, files, file{name: name, content: index})
	}
	for name, content := range map[string][]byte{
		"dots":           packed(t, set(t, ".")),
		"slashes":        packed(t, set(t, "/")),
		"gzip":           zipped(t, packed(t, set(t, "."))),
		"old index":      withIndex(".", "artifact-descriptor.json", "software.ocm/main"),
		"old annotation": withIndex(".", "./index.json", "cloud.gardener.ocm/main"),
		"only manifest":  withIndex("/", "/index.json", "other"),
		"directories and links": append(tarOf(t, file{name: "blobs/", header: tar.Header{Typeflag: tar.TypeDir}},
			file{name: "index.json", header: tar.Header{Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}})[:1024],
			packed(t, set(t, "."))...),
		"the first counts": packed(t, set(t, "."), file{name: "index.json", content: []byte("{}")},
			file{name: nameOf(".", chart), content: []byte("other")}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := readSet(content)
			must(t, err)
			check(t, helmType, found.Layer.MediaType, nil, "")
			if !bytes.Equal(found.Content, chart) || !strings.Contains(string(found.Manifest), helmType) {
				t.Errorf("found %+v", found)
			}
		})
	}
}

func TestReadArtifactSetRefuses(t *testing.T) {
	t.Parallel()
	// with has another file, and without lacks one.
	with := func(name string, content []byte) []byte {
		files := set(t, ".")
		files[name] = content
		return packed(t, files)
	}
	without := func(name string) []byte {
		files := set(t, ".")
		delete(files, name)
		return packed(t, files)
	}
	index := func(manifests ...object) []byte { return object{"manifests": manifests}.json(t) }
	withMain := func(manifests ...object) []byte { return with("index.json", index(manifests...)) }
	nested := object{"manifests": []object{}}.json(t)
	withNested := maps.Clone(set(t, "."))
	withNested["index.json"], withNested[nameOf(".", nested)] = index(blob("a/b", nested)), nested
	many := make([]file, 2000)
	for at, name := range numbered(len(many), "x%d") {
		many[at].name = name
	}
	const (
		noIndex, tooLarge = "the artifact set has no index.json", "the artifact set is larger than the"
		missing           = "the main manifest of the artifact set, "
	)
	whole := packed(t, set(t, "."))
	large := zipped(t, tarOf(t, file{name: "x", content: make([]byte, 32<<20)}))
	for name, c := range map[string]struct {
		content []byte
		says    string
	}{
		"empty":            {nil, noIndex},
		"no index":         {without("index.json"), noIndex},
		"index, no JSON":   {with("index.json", []byte("hunter2")), noIndex},
		"several":          {withMain(blob("a/b", nil), blob("a/b", nil)), "has 2 manifests, but expected one"},
		"digest of main":   {withMain(object{"digest": "x"}), "has 1 manifests, but expected one"},
		"no main manifest": {withMain(blob("a/b", []byte("x"))), missing + "sha256:2d711642b726b04401627ca9"},
		"no manifest":      {withMain(blob("a/b", chart)), "expected a manifest of a registry, but found something else"},
		"an index in it":   {packed(t, withNested), "the main manifest of the artifact set is an index"},
		"no layer":         {without(nameOf(".", chart)), "the layer of the artifact set, sha256:"},
		"wrong digest":     {with(nameOf(".", chart), []byte("other")), "the layer of the artifact set has the digest"},
		"blobs too large":  {with(nameOf(".", []byte("x")), make([]byte, limit)), tooLarge},
		"index too large":  {with("index.json", make([]byte, 1<<20+1)), "index.json of the artifact set is larger than"},
		"sparse":           {sparse(t, nameOf(".", chart)), tooLarge},
		"bomb":             {zipped(t, make([]byte, 32<<20)), noIndex}, // two blocks of zeros end a tar
		"large file":       {large, tooLarge + " 1048576 bytes"},
		"many files":       {tarOf(t, many...), "has more than the 1000 entries that are allowed"},
		"truncated":        {whole[:300], "the artifact set cannot be read as a tar: unexpected EOF"},
		"no tar":           {[]byte(strings.Repeat("hunter2", 100)), "the artifact set cannot be read as a tar"},
		"no gzip":          {[]byte("\x1f\x8bhunter2"), "the artifact set cannot be uncompressed"},
		"end of gzip":      {zipped(t, whole)[:300], "the artifact set cannot be read as a tar: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readSet(c.content)
			refused(t, err, c.says)
		})
	}
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
		body := bodyOf(io.MultiReader(bytes.NewReader(content), iotest.ErrReader(broken)))
		_, err := component.ReadArtifactSet(body, limit, (*component.Manifest).ChartLayer)
		if !errors.Is(err, broken) || fetch.Explain(err).Kind != fetch.Unavailable {
			t.Errorf("after %d bytes: found %v", len(content), err)
		}
	}
	choose := func(*component.Manifest) (ocispec.Descriptor, error) { return ocispec.Descriptor{}, broken }
	if _, err := component.ReadArtifactSet(bodyOf(bytes.NewReader(whole)), limit, choose); !errors.Is(err, broken) {
		t.Errorf("found %v", err)
	}
}

// FuzzReadArtifactSet: what is read is a blob of the set that has its digest.
func FuzzReadArtifactSet(f *testing.F) {
	for _, content := range [][]byte{
		packed(f, set(f, ".")), zipped(f, packed(f, set(f, "/"))), sparse(f, nameOf(".", chart)), nil,
	} {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		found, err := readSet(content)
		switch {
		case err != nil:
			if !errors.As(err, new(*fetch.Error)) || len(err.Error()) > 1000 {
				t.Errorf("found %v", err)
			}
		case component.Verify("", found.Layer.Digest, found.Content) != nil || len(found.Content) > limit:
			t.Errorf("found %d bytes that are not %v", len(found.Content), found.Layer)
		}
	})
}
