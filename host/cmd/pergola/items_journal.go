package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
)

func newItemsJournalCommand() *cobra.Command {
	host, namespace := &hostFinder{}, ""
	cmd := &cobra.Command{
		Use:   "journal [NAME]",
		Short: "List the jobs that the host on this machine remembers",
		Long: `List the jobs that the host on this machine remembers, the newest first: of all DeployItems, or of those of one name.

It talks to a host that runs on this machine, as the same user: in its container, say. It needs no cluster and no
rights in one. A host remembers its last jobs, until it ends; "-o json" has all that happened in them.`,
		Example: `  kubectl exec deploy/pergola -- pergola items journal
  pergola items journal my-item -n my-namespace -o json`,
		Args: arguments(0, 1),
	}
	flags := cmd.Flags()
	output := addOutput(flags)
	host.addTo(flags)
	flags.StringVarP(&namespace, "namespace", "n", "", "namespace of the DeployItems; without it all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		found, err := host.find(cmd.Context())
		if err != nil {
			return failing(err)
		}
		list, err := found.Jobs(cmd.Context(), namespace, name)
		if err != nil {
			return failing(err)
		}
		if output.format == formatJSON {
			return failing(printJSON(cmd.OutOrStdout(), list))
		}
		return failing(printText(cmd.OutOrStdout(), journalText(list, time.Now())))
	}
	return cmd
}

// journalText is a list of jobs as a table.
func journalText(list *control.JobList, now time.Time) string {
	rows := make([]terminal.Row, 0, len(list.Jobs))
	for _, j := range list.Jobs {
		took, message := now.Sub(j.Began), j.WaitingFor
		if j.Ended != nil {
			took = j.Ended.Sub(j.Began)
		}
		if j.LastError != nil {
			message = j.LastError.Reason + ": " + j.LastError.Message
		}
		rows = append(rows, terminal.Row{Cells: []string{
			j.Namespace, j.Name, j.JobID, j.Operation, j.Phase, inspect.Ago(j.Began, now), took.Round(time.Millisecond).String(),
			strconv.Itoa(j.Calls), strconv.Itoa(j.Retries), message,
		}})
	}
	header := []string{"NAMESPACE", "NAME", "JOB ID", "OPERATION", "PHASE", "BEGAN", "TOOK", "CALLS", "RETRIES", "WAITING FOR / LAST ERROR"}
	return terminal.Table(header, rows)
}
