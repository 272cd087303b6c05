package component_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/test/cases"
)

// home is the repository of the component.
var home = registry.Reference{
	Registry: "reg.example", Repository: "a/component-descriptors/example.com/shop", Reference: version,
}

func TestParseAccess(t *testing.T) {
	t.Parallel()
	one := digest.FromString("1").String()
	cases.Run(t, "testdata/access.yaml", func(t *testing.T, c struct {
		Access     json.RawMessage
		Want, Says string
	},
	) {
		found, err := component.ParseAccess(c.Access, home)
		check(t, c.Want, fmt.Sprintf("%T %v", found, found), err, c.Says)
	}, "$ONE", one, "$OTHER", digest.FromString("2").String())
	access := object{"type": "localBlob", "localReference": strings.Repeat(one+",", 100) + one}
	_, err := component.ParseAccess(access.json(t), home)
	refused(t, err, "or at most 100 with commas")
}

// TestAccessTypes: each name of a type may have a version.
func TestAccessTypes(t *testing.T) {
	t.Parallel()
	content := digest.FromString("1")
	for _, name := range []string{
		"ociArtifact", "ociRegistry", "ociImage", "OCIImage", "OCIArtifact", "relativeOciReference", "localBlob", "LocalBlob",
		"localOciBlob", "ociBlob", "OCIImageLayer", "helm", "Helm", "wget", "Wget",
	} {
		for _, suffix := range []string{"", "/v1"} {
			access := object{
				"type": name + suffix, "imageReference": "a.example/b", "reference": "b", "localReference": content,
				"digest": content, "ref": "a.example/b", "helmRepository": "https://a.example", "helmChart": "b",
				"url": "https://a.example",
			}
			if _, err := component.ParseAccess(access.json(t), home); err != nil {
				t.Errorf("%s%s: %v", name, suffix, err)
			}
		}
	}
	for _, name := range []string{
		"s3", "gitHub/v1", "git/v1alpha1", "npm", "maven", "ocm", "none", "localFilesystemBlob", "whatever", "",
	} {
		_, err := component.ParseAccess(object{"type": name}.json(t), home)
		refused(t, err, `the access has the type "`+name+`", which is not supported`)
	}
}
