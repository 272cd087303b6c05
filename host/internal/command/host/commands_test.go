package host

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
)

var pergola = commandtest.Of(NewCommand, NewConfigCommand, NewCRDsCommand)

func TestCRDs(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"crds":                              {"contexts", "deployerregistrations", "deployitems", "syncobjects", "targets"},
		"crds --only deployerregistrations": {"deployerregistrations"}, // which a Landscaper lacks
	} {
		out, err := pergola.Run(t, strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, text := range strings.Split(out, "\n---\n") {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.UnmarshalStrict([]byte(text), definition); err != nil {
				t.Fatal(err)
			}
			got = append(got, definition.Spec.Names.Plural)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	file := commandtest.WriteFile(t, "host.yaml", commandtest.ConfigHead+"workers: 5\n")
	out, err := pergola.Run(t, "config", "check", file)
	if err != nil || out != file+" is a HostConfiguration that a host can use\n" {
		t.Errorf("found %q, %v", out, err)
	}
}
