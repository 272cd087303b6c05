package main

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

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// trial is a job that a plugin is tried with, without a cluster.
type trial struct {
	item, operation, state string
	timeout                time.Duration
	untilDone              bool
	local                  localFlags
	call                   callFlags
}

// operations are those of a deployer by their names on the command line.
var operations = map[string]plugin.Operation{
	"reconcile": plugin.Reconcile, "delete": plugin.Delete, "abort": plugin.Abort,
	"force-reconcile": plugin.ForceReconcile,
}

func newPluginsRunCommand() *cobra.Command {
	t := &trial{}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Call a plugin for a DeployItem, without a cluster",
		Long: `Call a plugin for a DeployItem, without a cluster.

Starts the plugin as a host does, calls it once for the item and prints what it says on the way and how the call
ends; what it logs goes to standard error. With --until-done it is called again until the job is done. Nothing is
simulated: what the plugin deploys is deployed.

With --state the provider status of the item and the job are kept in a file between the runs, as a host keeps them
in the status of the item. When the item is deleted, the file is removed.

With --attach, instead of FILE, a plugin is called that runs already, such as one in a debugger: start it there with
the argument "attachable", and it prints its address.

The exit code is 1 if the job has failed.`,
		Example: `  pergola plugins run bin/plugins/mock --item test/examples/mock.yaml
  pergola plugins run bin/plugins/manifest --item item.yaml --target kubeconfig --state state.json --until-done
  pergola plugins run bin/plugins/manifest --item item.yaml --target kubeconfig --other-target backend=other-kubeconfig
  pergola plugins run bin/plugins/helm --item item.yaml --target kubeconfig --context context.yaml --secret pull-secret.yaml
  pergola plugins run bin/plugins/manifest --item item.yaml --target kubeconfig --state state.json --operation delete --until-done`,
		Args: func(cmd *cobra.Command, args []string) error { return t.local.oneOfFileAndAttach(args) },
	}
	flags := cmd.Flags()
	output := addOutput(flags)
	t.local.addTo(flags)
	t.call.addTo(flags)
	t.call.addOthersTo(flags)
	flags.StringVar(&t.item, "item", "", "file with the DeployItem")
	flags.StringVar(&t.operation, "operation", "reconcile",
		"what to call the plugin for: reconcile, delete, abort or force-reconcile")
	flags.DurationVar(&t.timeout, "timeout", 10*time.Minute, "how long the job may take")
	flags.BoolVar(&t.untilDone, "until-done", false, "call the plugin again while the job is in progress")
	flags.StringVar(&t.state, "state", "",
		"file that keeps the provider status and the job for later runs; it is made if it is not there")
	t.local.addAttachTo(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		say := &narrator{out: cmd.OutOrStdout(), json: output.value == formatJSON}
		return t.run(cmd.Context(), args, say, cmd.ErrOrStderr())
	}
	return cmd
}

// run carries the job out.
func (t *trial) run(ctx context.Context, files []string, say *narrator, stderr io.Writer) (err error) {
	op, ok := operations[t.operation]
	if !ok {
		return fmt.Errorf("--operation: expected reconcile, delete, abort or force-reconcile, but found %q", t.operation)
	}
	if t.item == "" {
		return errors.New("--item is missing; it names a file with a DeployItem")
	}
	settings, err := t.local.settings()
	if err != nil {
		return err
	}
	options := t.local.options(settings, textLog(stderr), "")
	for _, file := range files {
		options.Dir, options.Files = filepath.Dir(file), []string{filepath.Base(file)}
	}
	local, err := t.call.read(ctx, t.item)
	if err != nil {
		return err
	}
	state, err := readState(t.state)
	if err != nil {
		return err
	}
	state.JobID = cmp.Or(state.JobID, uuid.NewString())
	state.applyTo(local.DeployItem, op)
	plugins, err := startPlugins(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plugins.close()) }()
	p, err := theOne(plugins.set, local.DeployItem)
	if err != nil {
		return err
	}
	local.Deadline = time.Now().Add(t.timeout)
	job := &localJob{localCall: local, plugin: p, op: op, state: state, say: say, woken: plugins.woken, again: t.untilDone}
	return job.carryOut(ctx)
}

// theOne returns the one plugin, if it serves the item.
func theOne(plugins *plugin.Set, item *v1alpha1.DeployItem) (*plugin.Plugin, error) {
	all := plugins.Status()
	if len(all) == 0 || all[0].State == plugin.Missing {
		return nil, errors.New("there is no such plugin; expected a file that is not hidden")
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
		return nil, fmt.Errorf("item %s: the plugin %s serves no deploy items; it brings hooks for those of type %q",
			item.Name, info.Name, info.HookedTypes)
	case !slices.Contains(info.Types, item.Spec.Type):
		return nil, fmt.Errorf("item %s: spec.type is %q, but the plugin %s serves %q",
			item.Name, item.Spec.Type, info.Name, info.Types)
	}
	return admitted[0], nil
}
