package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/crds"
)

func newCRDsCommand() *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:   "crds",
		Short: "Print the CustomResourceDefinitions that Pergola works with, as YAML",
		Long: `Print the CustomResourceDefinitions that Pergola works with, as YAML.

A cluster without a Landscaper needs all of them. A Landscaper brings its own, which should stay as they are, but none of
DeployerRegistrations: it is needed for HTTP hooks, and for nothing else.`,
		Example: `  pergola crds | kubectl apply -f -
  pergola crds --only deployerregistrations | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manifests, err := definitions(only)
			if err != nil {
				return failing(err)
			}
			return printText(cmd.OutOrStdout(), string(bytes.Join(manifests, nil)))
		},
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "print those of these resources alone, such as deployerregistrations")
	return cmd
}

// definitions returns the manifests of the CustomResourceDefinitions of some resources; of all if none is named.
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
