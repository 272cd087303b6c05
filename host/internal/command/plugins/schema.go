package plugins

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance"
)

func newSchemaCommand() *cobra.Command {
	var own bool
	cmd := &cobra.Command{
		Use:   "schema FILE [TYPE]",
		Short: "Print the JSON schema of a plugin's provider configuration",
		Long: `Print the JSON schema of a plugin's provider configuration, for editors and pipelines.

TYPE is the type of the DeployItems; it may be omitted if the plugin has a schema for one type only. With --own the
output is the schema of the plugin's own configuration, plugins.<name>.config of a HostConfiguration.

The plugin is started without host, cluster and confinement: do not run plugins without trust.`,
		Example: `  pergola plugins schema bin/plugins/manifest > manifest.schema.json
  pergola plugins schema bin/plugins/manifest --own`,
		Args: cli.Arguments(2),
	}
	cmd.Flags().BoolVar(&own, "own", false, "print the schema of the plugin's own configuration")
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
			return fmt.Errorf("the plugin %s has no such schema", info.Name)
		}
		if !json.Valid(schema) {
			return errors.New("the schema of the plugin is not valid JSON")
		}
		return cli.PrintJSON(cmd.OutOrStdout(), json.RawMessage(schema))
	}
	return cmd
}

// schemaOf returns the schema of a type, or the only schema.
func schemaOf(info *conformance.Info, itemType v1alpha1.DeployItemType) ([]byte, error) {
	types := slices.Sorted(maps.Keys(info.ProviderConfigSchemas))
	switch {
	case itemType == "" && len(types) == 1:
		itemType = types[0]
	case itemType == "" && len(types) > 1:
		return nil, fmt.Errorf("the plugin %s has schemas for several types; name one of %q", info.Name, types)
	case itemType != "" && !slices.Contains(types, itemType):
		return nil, fmt.Errorf("the plugin %s has no schema for %q, but for %q", info.Name, itemType, types)
	}
	return info.ProviderConfigSchemas[itemType], nil
}
