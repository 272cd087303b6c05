package host

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/crds"
)

// NewCRDsCommand returns the command "crds".
func NewCRDsCommand(string) *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:   "crds",
		Short: "Print the CustomResourceDefinitions of Pergola as YAML",
		Long: `Print the CustomResourceDefinitions of Pergola as YAML.

A cluster without a Landscaper needs all of them. A Landscaper has its own; leave these unchanged. It has none for
DeployerRegistrations, which are needed for HTTP hooks only.`,
		Example: `  pergola crds | kubectl apply -f -
  pergola crds --only deployerregistrations | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manifests, err := definitions(only)
			if err != nil {
				return cli.Failing(err)
			}
			return cli.PrintText(cmd.OutOrStdout(), string(bytes.Join(manifests, nil)))
		},
	}
	cmd.Flags().StringSliceVar(&only, "only", nil,
		"print the definitions of these resources only, such as deployerregistrations")
	return cmd
}

// definitions returns the CustomResourceDefinitions of some resources, or of all.
func definitions(only []string) ([][]byte, error) {
	manifests, err := crds.Manifests()
	if err != nil {
		return nil, err
	}
	var resources []string
	var chosen [][]byte
	for _, manifest := range manifests {
		var definition struct {
			Spec struct{ Names struct{ Plural string } }
		}
		if err := yaml.Unmarshal(manifest, &definition); err != nil {
			return nil, fmt.Errorf("read embedded CustomResourceDefinition: %w", err)
		}
		resources = append(resources, definition.Spec.Names.Plural)
		if len(only) == 0 || slices.Contains(only, definition.Spec.Names.Plural) {
			chosen = append(chosen, manifest)
		}
	}
	for _, name := range only {
		if !slices.Contains(resources, name) {
			return nil, fmt.Errorf("--only: expected any of %s, but found %q", strings.Join(resources, ", "), name)
		}
	}
	return chosen, nil
}
