package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
)

func newPluginsReloadCommand() *cobra.Command {
	host := &hostFinder{}
	cmd := &cobra.Command{
		Use:   "reload [FILE...]",
		Short: "Have the host read the plugin directory anew",
		Long: `Have the host read the plugin directory anew.

Plugins whose files are new are started, those whose files are gone are ended, and those whose files have changed
get a new process beside the old one, which ends when the calls under way have. Plugins that do not run are tried
again at once. The others go on untouched, unless FILE names them. If a new process does not come to run, the old
one goes on.

The exit code is 1 if something could not be done. SIGHUP to the host does the same, without files.

To replace a plugin, put the new file beside the old one and rename it: the host refuses to run a file again that
was changed while it was loaded.`,
		Example: `  cp helm-deployer-v2 /plugins/.new && mv /plugins/.new /plugins/helm-deployer
  pergola plugins reload`,
	}
	output := addOutput(cmd.Flags())
	host.addTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		client, err := host.find(cmd.Context())
		if err != nil {
			return err
		}
		result, err := client.Reload(cmd.Context(), files...)
		if err != nil {
			return err
		}
		if output.format == formatJSON {
			err = printJSON(cmd.OutOrStdout(), result)
		} else {
			err = printText(cmd.OutOrStdout(), reloadText(result))
		}
		if err == nil && result.Failed() {
			err = errors.New("not everything was reloaded; what is not refused goes on as it was")
		}
		return err
	}
	return cmd
}

// reloadText says what a reload has done, in a line for each plugin.
func reloadText(result *control.ReloadResult) string {
	if len(result.Reloaded) == 0 {
		return "Nothing has changed.\n"
	}
	text := ""
	for _, r := range result.Reloaded {
		did := map[string]string{"add": "added", "restart": "restarted", "remove": "removed", "refuse": "refused"}[r.Action]
		switch {
		case r.Error == "" && did == "":
			text += terminal.Printable(r.File) + ": " + terminal.Printable(r.Action) + "\n" // an action of a later version
		case r.Error == "":
			text += terminal.Printable(r.File) + ": " + did + "\n"
		case did == "refused":
			text += terminal.Printable(r.File) + ": refused\n" + terminal.Indented(r.Error)
		default:
			text += terminal.Printable(r.File) + ": not reloaded\n" + terminal.Indented(r.Error)
		}
	}
	return text
}
