package host

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
)

var pergola = commandtest.Of(NewCommand, NewConfigCommand, NewCRDsCommand)

func TestCRDs(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"crds":                              {"contexts", "deployerregistrations", "deployitems", "syncobjects", "targets"},
		"crds --only deployerregistrations": {"deployerregistrations"}, // a Landscaper lacks it
	} {
		out, err := pergola.Run(t, strings.Fields(args)...)
		var got []string
		for text := range strings.SplitSeq(out, "\n---\n") {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			err = errors.Join(err, yaml.UnmarshalStrict([]byte(text), definition))
			got = append(got, definition.Spec.Names.Plural)
		}
		if !slices.Equal(want, got) || err != nil {
			t.Errorf("%s: expected %v, but found %v, %v", args, want, got, err)
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
