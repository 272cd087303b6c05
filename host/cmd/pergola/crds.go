package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/crds"
)

func newCRDsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "crds",
		Short: "Print the CustomResourceDefinitions that Pergola works with, as YAML",
		Long: `Print the CustomResourceDefinitions that Pergola works with, as YAML.

A cluster with a Landscaper has them already. For one without:

  pergola crds | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manifests, err := crds.Manifests()
			if err != nil {
				return err
			}
			for _, manifest := range manifests {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s", manifest); err != nil {
					return fmt.Errorf("print CustomResourceDefinitions: %w", err)
				}
			}
			return nil
		},
	}
}
