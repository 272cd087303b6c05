package component_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
)

// home is the repository of the component.
var home = registry.Reference{Registry: "reg.example", Repository: "a/component-descriptors/example.com/shop", Reference: version}

func TestParseAccess(t *testing.T) {
	t.Parallel()
	one, other := digest.FromString("1"), digest.FromString("2")
	artifact := func(host, repository, reference string) component.Access {
		return component.Artifact{Reference: registry.Reference{Registry: host, Repository: repository, Reference: reference}}
	}
	image := func(reference string) object { return object{"type": "ociArtifact", "imageReference": reference} }
	inHome := registry.Reference{Registry: home.Registry, Repository: home.Repository}
	for name, c := range map[string]struct {
		access object
		want   component.Access
	}{
		"artifact":           {image("reg.example/charts/shop:1.0.0"), artifact("reg.example", "charts/shop", "1.0.0")},
		"port":               {image("localhost:5000/shop:1.0.0"), artifact("localhost:5000", "shop", "1.0.0")},
		"digest":             {image("reg.example/shop@" + one.String()), artifact("reg.example", "shop", one.String())},
		"tag and digest":     {image("reg.example/shop:1.0.0@" + one.String()), artifact("reg.example", "shop", one.String())},
		"neither":            {image("reg.example/shop"), artifact("reg.example", "shop", "latest")},
		"no host":            {image("charts/shop:1"), artifact("docker.io", "charts/shop", "1")},
		"one part":           {image("shop:1"), artifact("docker.io", "library/shop", "1")},
		"scheme":             {image("oci://reg.example/shop:1"), artifact("reg.example", "shop", "1")},
		"scheme, short host": {image("http://reg/shop:1"), artifact("reg", "shop", "1")},
		"relative":           {object{"type": "relativeOciReference/v1", "reference": "charts/shop:1"}, artifact("reg.example", "charts/shop", "1")},
		"local blob": {
			object{"type": "localBlob", "localReference": one, "mediaType": helmType, "globalAccess": image("evil.example/x:1")},
			component.Blob{Repository: inHome, Chunks: []digest.Digest{one}, Kind: component.KindBlob},
		},
		"chunks": {
			object{"type": "LocalBlob/v1", "localReference": one + "," + other, "mediaType": "application/x-tgz"},
			component.Blob{Repository: inHome, Chunks: []digest.Digest{one, other}, Kind: component.KindBlob},
		},
		"artifact set": {
			object{"type": "localBlob", "localReference": one, "mediaType": "application/vnd.oci.image.manifest.v1+tar+gzip"},
			component.Blob{Repository: inHome, Chunks: []digest.Digest{one}, Kind: component.KindArtifactSet},
		},
		"local manifest": {object{"type": "localBlob", "localReference": one, "mediaType": "application/vnd.oci.image.manifest.v1+json"}, artifact(home.Registry, home.Repository, one.String())},
		"local index":    {object{"type": "localBlob", "localReference": one, "mediaType": "application/vnd.oci.image.index.v1+json"}, artifact(home.Registry, home.Repository, one.String())},
		"localOciBlob":   {object{"type": "localOciBlob", "digest": one}, component.Blob{Repository: inHome, Chunks: []digest.Digest{one}, Kind: component.KindBlob}},
		"ociBlob": {
			object{"type": "ociBlob", "ref": "other.example/x@" + one.String(), "digest": one, "size": 5, "mediaType": helmType},
			component.Blob{Repository: registry.Reference{Registry: "other.example", Repository: "x"}, Chunks: []digest.Digest{one}, Kind: component.KindBlob},
		},
		"ociBlob, digest in ref": {
			object{"type": "OCIImageLayer", "ref": "other.example/x@" + one.String()},
			component.Blob{Repository: registry.Reference{Registry: "other.example", Repository: "x"}, Chunks: []digest.Digest{one}, Kind: component.KindBlob},
		},
		"layout": {
			object{"type": "localBlob", "localReference": one, "mediaType": "application/vnd.ocm.software.oci.layout.v1+tar"},
			component.Blob{Repository: inHome, Chunks: []digest.Digest{one}, Kind: component.KindArtifactSet},
		},
		"helm":                {object{"type": "helm", "helmRepository": "https://charts.example/a", "helmChart": "shop:1.0.0", "version": "2.0.0"}, component.HelmChart{Repository: "https://charts.example/a", Name: "shop", Version: "1.0.0"}},
		"helm, other version": {object{"type": "Helm/v1", "helmRepository": "https://charts.example", "helmChart": "shop", "version": "2.0.0", "caCert": "", "keyring": nil}, component.HelmChart{Repository: "https://charts.example", Name: "shop", Version: "2.0.0"}},
		"helm in a registry":  {object{"type": "helm", "helmRepository": "oci://reg.example/charts/", "helmChart": "shop:1.0.0+a"}, artifact("reg.example", "charts/shop", "1.0.0_a")},
		"wget":                {object{"type": "wget", "url": "https://files.example/x?token=hunter2", "verb": "get", "noRedirect": false, "header": object{}}, component.Wget{URL: "https://files.example/x?token=hunter2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := component.ParseAccess(c.access.json(t), home)
			if diff := cmp.Diff(c.want, found); err != nil || diff != "" {
				t.Errorf("found error %v and -want +found:\n%s", err, diff)
			}
		})
	}
}

// TestAccessTypes: each name of a type may have a version.
func TestAccessTypes(t *testing.T) {
	t.Parallel()
	content := digest.FromString("1")
	for _, name := range []string{
		"ociArtifact", "ociRegistry", "ociImage", "OCIImage", "OCIArtifact", "relativeOciReference", "localBlob", "LocalBlob", "localOciBlob",
		"ociBlob", "OCIImageLayer", "helm", "Helm", "wget", "Wget",
	} {
		for _, suffix := range []string{"", "/v1"} {
			access := object{
				"type": name + suffix, "imageReference": "a.example/b", "reference": "b", "localReference": content, "digest": content, "ref": "a.example/b",
				"helmRepository": "https://a.example", "helmChart": "b", "url": "https://a.example",
			}
			if _, err := component.ParseAccess(access.json(t), home); err != nil {
				t.Errorf("%s%s: %v", name, suffix, err)
			}
		}
	}
	for _, name := range []string{"s3", "gitHub/v1", "git/v1alpha1", "npm", "maven", "ocm", "none", "localFilesystemBlob", "whatever", ""} {
		_, err := component.ParseAccess(object{"type": name}.json(t), home)
		refused(t, err, `the access has the type "`+name+`", which is not supported`)
	}
}

func TestParseAccessRefuses(t *testing.T) {
	t.Parallel()
	one := digest.FromString("1").String()
	for name, c := range map[string]struct {
		access object
		says   string
	}{
		"no object":        {object{"type": []string{}}, "the access cannot be read: its field type is of the type array"},
		"no reference":     {object{"type": "ociArtifact"}, `the access has the imageReference ""`},
		"bad reference":    {object{"type": "ociArtifact", "imageReference": "reg.example/../x:1"}, `the access has the imageReference "reg.example/../x:1"`},
		"other scheme":     {object{"type": "ociArtifact", "imageReference": "ftp://reg.example/x:1"}, `the access has the imageReference "ftp://`},
		"user":             {object{"type": "ociArtifact", "imageReference": "https://me:hunter2@reg.example/x:1"}, `the access has the imageReference "…"`},
		"relative, path":   {object{"type": "relativeOciReference", "reference": "../x:1"}, `the access has the reference`},
		"file name":        {object{"type": "localBlob", "localReference": "chart.tgz"}, `the access has the localReference "chart.tgz", but expected the digest`},
		"empty chunk":      {object{"type": "localBlob", "localReference": one + ","}, "the access has the localReference"},
		"too many chunks":  {object{"type": "localBlob", "localReference": strings.Repeat(one+",", 100) + one}, "or at most 100 with commas"},
		"manifest, chunks": {object{"type": "localBlob", "localReference": one + "," + one, "mediaType": "application/vnd.oci.image.manifest.v1+json"}, "several digests, but the mediaType of one manifest"},
		"no digest":        {object{"type": "ociBlob", "ref": "reg.example/x"}, `the access has the digest ""`},
		"certificate":      {object{"type": "helm", "helmRepository": "https://a.example", "helmChart": "b", "caCert": "x"}, "a caCert or a keyring, which is not supported"},
		"no chart":         {object{"type": "helm", "helmRepository": "https://a.example"}, "no helmChart or no helmRepository"},
		"no version":       {object{"type": "helm", "helmRepository": "oci://a.example", "helmChart": "b"}, "no version of the chart"},
		"post":             {object{"type": "wget", "url": "https://a.example", "verb": "POST"}, "only a plain GET"},
		"header":           {object{"type": "wget", "url": "https://a.example", "header": object{"Authorization": []string{"hunter2"}}}, "only a plain GET"},
		"no url":           {object{"type": "wget"}, "the access has no url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := component.ParseAccess(c.access.json(t), home)
			refused(t, err, c.says)
		})
	}
}
