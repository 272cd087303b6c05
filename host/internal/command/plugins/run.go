package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// trial is a job of a plugin without a cluster.
type trial struct {
	item, operation, state string
	timeout                time.Duration
	untilDone              bool
	local                  local.Flags
	call                   local.CallFlags
}

// operations of a deployer by their names on the command line.
var operations = map[string]plugin.Operation{
	"reconcile": plugin.Reconcile, "delete": plugin.Delete, "abort": plugin.Abort,
	"force-reconcile": plugin.ForceReconcile,
}

func newRunCommand(version string) *cobra.Command {
	t := &trial{local: local.Flags{Version: version}}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Call a plugin for a DeployItem, without a cluster",
		Long: `Call a plugin for a DeployItem, without a cluster.

The plugin is started as a host does and called once for the item, after a check of the provider configuration if the
plugin can validate it. Its messages and the result of the call are printed; its log goes to standard error. With
--until-done it is called again until the job is done, also after an error that says when to try again. Nothing is
simulated: the plugin really deploys.

With --state the provider status of the item and the job are kept in a file between the runs, as a host keeps them
in the status of the item. The file is removed after the deletion of the item.

With --attach, instead of FILE, a running plugin is called, such as a plugin in a debugger: start it there with the
argument "attachable", and an address or it prints one.

The exit code is 1 if the job has failed.`,
		Example: `  pergola plugins run bin/plugins/mock --item test/examples/mock.yaml
  pergola plugins run bin/plugins/manifest --item item.yaml --target kubeconfig --state state.json --until-done
  pergola plugins run bin/plugins/manifest --item item.yaml --target kubeconfig --state state.json --operation delete
  pergola plugins run bin/plugins/hello --item item.yaml --target target.yaml
  pergola plugins run bin/plugins/helm --item item.yaml --target kubeconfig --context context.yaml --secret pull.yaml`,
		Args: func(cmd *cobra.Command, args []string) error { return t.local.OneOfFileAndAttach(args) },
	}
	flags := cmd.Flags()
	output := cli.AddOutput(flags)
	t.local.AddTo(flags)
	t.call.AddTo(flags)
	flags.StringVar(&t.item, "item", "", "file with the DeployItem")
	flags.StringVar(&t.operation, "operation", "reconcile",
		"operation: reconcile, delete, abort or force-reconcile")
	flags.DurationVar(&t.timeout, "timeout", 10*time.Minute, "maximum duration of the job")
	flags.BoolVar(&t.untilDone, "until-done", false,
		"call the plugin again while the job is in progress, or after the time in an error")
	flags.StringVar(&t.state, "state", "",
		"file for the provider status and the job between runs; created if missing")
	t.local.AddAttachTo(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		say := &printer{out: cmd.OutOrStdout(), json: output.Value == cli.FormatJSON}
		return t.run(cmd.Context(), args, say, cmd.ErrOrStderr())
	}
	return cmd
}

// run runs the job.
func (t *trial) run(ctx context.Context, files []string, say *printer, stderr io.Writer) (err error) {
	op, ok := operations[t.operation]
	if !ok {
		return fmt.Errorf("--operation: expected reconcile, delete, abort or force-reconcile, but found %q", t.operation)
	}
	if t.item == "" {
		return errors.New("--item is missing; it names a file with a DeployItem")
	}
	configured, err := t.local.Settings()
	if err != nil {
		return err
	}
	options := t.local.Options(configured, local.TextLog(stderr), "")
	for _, file := range files {
		options.Dir, options.Files = filepath.Dir(file), []string{filepath.Base(file)}
	}
	call, err := t.call.Read(ctx, t.item)
	if err != nil {
		return err
	}
	state, err := readState(t.state)
	if err != nil {
		return err
	}
	begins := state.JobID == "" && (op == plugin.Reconcile || op == plugin.ForceReconcile)
	state.JobID = cmp.Or(state.JobID, uuid.NewString())
	state.applyTo(call.DeployItem, op)
	plugins, err := local.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plugins.Close()) }()
	p, err := onlyPlugin(plugins.Set, call.DeployItem)
	if err != nil {
		return err
	}
	call.Deadline, call.Forced = time.Now().Add(t.timeout), op == plugin.ForceReconcile
	switch can := p.Info().Capabilities; {
	case op == plugin.Abort && !can.Abort:
		return fmt.Errorf("--operation abort: the plugin %q lacks the capability abort; a host cancels its running call",
			p.Name())
	case op == plugin.ForceReconcile && !can.ForceReconcile:
		op = plugin.Reconcile // as on a host
	}
	job := &job{
		Call: call, plugin: p, op: op, state: state, say: say, woken: plugins.Woken, untilDone: t.untilDone,
		validates: begins && p.Info().Capabilities.Validate,
	}
	return job.run(ctx)
}

// onlyPlugin returns the only plugin, if it serves the item.
func onlyPlugin(plugins *plugin.Set, item *v1alpha1.DeployItem) (*plugin.Plugin, error) {
	all := plugins.Status()
	if len(all) == 0 || all[0].State == plugin.Missing {
		return nil, errors.New("there is no such plugin; expected a file without a leading dot")
	}
	if err := all[0].Problem; err != nil {
		return nil, fmt.Errorf("plugin %s: %w", all[0].File, err)
	}
	admitted := plugins.Admitted()
	if len(admitted) == 0 {
		return nil, fmt.Errorf("plugin %s: %w", all[0].File, plugin.ErrNotRunning)
	}
	switch info := admitted[0].Info(); {
	case len(info.Types) == 0:
		return nil, fmt.Errorf("item %s: the plugin %s serves no deploy items; it has hooks for the types %q",
			item.Name, info.Name, info.HookedTypes)
	case !slices.Contains(info.Types, item.Spec.Type):
		return nil, fmt.Errorf("item %s: spec.type is %q, but the plugin %s serves %q",
			item.Name, item.Spec.Type, info.Name, info.Types)
	}
	return admitted[0], nil
}
