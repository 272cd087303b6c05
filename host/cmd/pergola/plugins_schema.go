package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance"
)

func newPluginsSchemaCommand() *cobra.Command {
	var own bool
	cmd := &cobra.Command{
		Use:   "schema FILE [TYPE]",
		Short: "Print the JSON schema of the provider configuration that a plugin takes",
		Long: `Print the JSON schema of the provider configuration that a plugin takes, for an editor or a pipeline that checks DeployItems.

TYPE is that of the DeployItems; it can be left out if the plugin has a schema for one type only. With --own the schema of
the plugin's own configuration document is printed instead, which stands in plugins.<name>.config of the host's configuration.

The plugin is started for this, without a host, a cluster or a confinement: do not run what you do not trust.`,
		Example: `  pergola plugins schema bin/plugins/manifest > manifest.schema.json
  pergola plugins schema bin/plugins/manifest --own`,
		Args: arguments(2),
	}
	cmd.Flags().BoolVar(&own, "own", false, "print the schema of the plugin's own configuration document")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		plugin, err := conformance.Start(cmd.Context(), args[0], conformance.Options{Output: io.Discard})
		if err != nil {
			return err
		}
		info := plugin.Info()
		plugin.Close()
		schema := info.ConfigSchema
		if !own {
			if schema, err = schemaOf(info, v1alpha1.DeployItemType(strings.Join(args[1:], ""))); err != nil {
				return err
			}
		}
		if len(schema) == 0 {
			return fmt.Errorf("the plugin %s publishes no such schema", info.Name)
		}
		if !json.Valid(schema) {
			return errors.New("the schema that the plugin publishes is no JSON")
		}
		return printJSON(cmd.OutOrStdout(), json.RawMessage(schema))
	}
	return cmd
}

// schemaOf returns the schema of a type, or the only one there is.
func schemaOf(info *conformance.Info, itemType v1alpha1.DeployItemType) ([]byte, error) {
	types := slices.Sorted(maps.Keys(info.ProviderConfigSchemas))
	switch {
	case itemType == "" && len(types) == 1:
		itemType = types[0]
	case itemType == "" && len(types) > 1:
		return nil, fmt.Errorf("the plugin %s publishes schemas for several types; name one of %q", info.Name, types)
	case itemType != "" && !slices.Contains(types, itemType):
		return nil, fmt.Errorf("the plugin %s publishes no schema for %q, but for %q", info.Name, itemType, types)
	}
	return info.ProviderConfigSchemas[itemType], nil
}
