package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/conformance"
)

// verifier checks plugins.
type verifier struct {
	items []string
	local localFlags
	call  callFlags
}

func newPluginsVerifyCommand() *cobra.Command {
	v := &verifier{}
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check the plugins of a directory: that a host would use them, and that they keep the rules of the protocol",
		Long: `Check the plugins of a directory: that a host would use them, and that they keep the rules of the protocol.

First each plugin is started as a host with the configuration does: its file must be safe to run, have the checksum
in the configuration, and clash with no other plugin. Those that a host would not refuse are then put through the conformance
checks: each rule of the protocol has a name, and the report says for each that is broken in which call, and how.
The checks start a program many times, confined and limited as the configuration says.

Without --item nothing is deployed, and the rules about deploying are not checked. Each DeployItem is given to
the plugin that serves its type, deployed and deleted again, several times and with interruptions.

With --attach, instead of DIR, a plugin is checked that runs already, such as one in a debugger: start it there with
the argument "attachable", and it prints its address.

The exit code is 1 if anything is wrong.`,
		Example: `  pergola plugins verify bin/plugins --item test/examples/mock.yaml
  pergola plugins verify /plugins --config host.yaml -o json`,
		Args: func(_ *cobra.Command, args []string) error { return v.local.oneOfFileAndAttach(args) },
	}
	flags := cmd.Flags()
	output := addOutput(flags)
	v.local.addTo(flags)
	v.call.addTo(flags)
	v.local.addAttachTo(flags)
	flags.StringArrayVar(&v.items, "item", nil, "file with a DeployItem to deploy and delete; may be given several times")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		verdicts, err := v.verify(cmd.Context(), args, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		err = printAs(cmd.OutOrStdout(), output.value, verdicts, func(bool) string { return verdictsText(verdicts) })
		if err == nil && slices.ContainsFunc(verdicts, verdict.broken) {
			err = errors.New("not every plugin is as it must be")
		}
		return err
	}
	return cmd
}

// verdict is what was found about one plugin.
type verdict struct {
	// File of the plugin, or its address.
	File    string `json:"file"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Problem says why a host does not use it; empty if it does.
	Problem string `json:"problem,omitempty"`
	// Rules of the protocol; empty if they were not checked, because nobody should run the program.
	Rules []finding `json:"rules,omitempty"`
}

// finding is what was found about one rule, with its sentence.
type finding struct {
	conformance.Finding

	Text string `json:"text"`
}

// broken reports whether anything is wrong with the plugin.
func (v verdict) broken() bool { return v.Problem != "" || v.count()[conformance.Broken] > 0 }

func (v verdict) count() map[conformance.Verdict]int {
	count := map[conformance.Verdict]int{}
	for _, f := range v.Rules {
		count[f.Verdict]++
	}
	return count
}

// verify checks the plugins of a directory, or the one that is attached. The error is for what says nothing about them.
func (v *verifier) verify(ctx context.Context, args []string, stderr io.Writer) ([]verdict, error) {
	settings, err := v.local.settings()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(strings.Join(args, "")) // there is none with --attach
	if err != nil {
		return nil, fmt.Errorf("find the plugin directory: %w", err)
	}
	options := v.local.options(settings, v.local.log(stderr), dir)
	cases, err := v.cases(ctx)
	if err != nil {
		return nil, err
	}
	plugins, err := startPlugins(ctx, options)
	if err != nil {
		return nil, err
	}
	found := plugins.set.Status()
	if err := errors.Join(plugins.tellPassedOver(stderr), plugins.close(), orphans(cases, found)); err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there are no plugins in %s", options.Dir)
	}
	verdicts := make([]verdict, 0, len(found))
	for _, s := range found {
		verdict := verdict{File: s.File}
		if s.Problem != nil {
			verdict.Problem = s.Problem.Error()
		}
		if s.Info != nil {
			verdict.Name, verdict.Version = s.Info.Name, s.Info.Version
		}
		if s.State != plugin.Refused {
			o := conformanceOptions(options, s, cases) //nolint:contextcheck // conformance ends what it has started
			if v.local.verbose {
				o.Output = stderr
			}
			if verdict.Rules, err = v.checkRules(ctx, filepath.Join(options.Dir, s.File), o); err != nil {
				return nil, fmt.Errorf("check plugin %s: %w", s.File, err)
			}
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts, nil
}

// checkRules checks the rules of the protocol.
func (v *verifier) checkRules(ctx context.Context, path string, o conformance.Options) (findings []finding, err error) {
	check, where := conformance.Binary, path
	if v.local.attach != "" {
		check, where = conformance.Attached, v.local.attach
	}
	report, err := check(ctx, where, o)
	if err != nil {
		return nil, err
	}
	for _, f := range report.Findings {
		findings = append(findings, finding{Finding: f, Text: f.Rule.Text()})
	}
	return findings, nil
}

// cases are those for the items.
func (v *verifier) cases(ctx context.Context) ([]conformance.Case, error) {
	var cases []conformance.Case
	for _, path := range v.items {
		local, err := v.call.read(ctx, path)
		if err != nil {
			return nil, err
		}
		item := local.DeployItem
		named, err := local.secrets.registries(ctx, item.Namespace)
		if err != nil {
			return nil, err
		}
		item.Status.JobID = cmp.Or(item.Status.JobID, "verify")
		call := conformance.Call{
			DeployItem: item, Context: lscontext.WithoutCredentials(local.Context), Credentials: local.Credentials,
			OCMConfig: local.OCMConfig, Secrets: named,
		}
		if t := local.Target; t != nil {
			call.Target = &sdk.Target{Name: t.Target.Name, Type: t.Target.Spec.Type, Content: []byte(t.Content)}
		}
		cases = append(cases, conformance.Case{Name: path, Call: call})
	}
	return cases, nil
}

// orphans names the items that no plugin serves.
func orphans(cases []conformance.Case, found []plugin.Status) error {
	var errs []error
	for _, c := range cases {
		item := c.Call.DeployItem
		serves := func(s plugin.Status) bool { return s.Info != nil && slices.Contains(s.Info.Types, item.Spec.Type) }
		if !slices.ContainsFunc(found, serves) {
			errs = append(errs, fmt.Errorf("--item %s: no plugin that runs serves its type %q", c.Name, item.Spec.Type))
		}
	}
	return errors.Join(errs...)
}

// conformanceOptions are those for one plugin: it is run with what its profile gives it, and gets the items that it
// serves.
func conformanceOptions(options plugin.Options, s plugin.Status, cases []conformance.Case) conformance.Options {
	profile, ok := options.Profiles[s.File]
	if !ok {
		profile = options.DefaultProfile
	}
	o := conformance.Options{Args: profile.Args, Start: startBy(profile)}
	for _, name := range profile.Environment {
		if value, ok := os.LookupEnv(name); ok {
			o.Env = append(o.Env, name+"="+value)
		}
	}
	if s.Info == nil {
		return o
	}
	o.Configuration = options.Configs[s.Info.Name]
	for _, c := range cases {
		if slices.Contains(s.Info.Types, c.Call.DeployItem.Spec.Type) {
			o.Cases = append(o.Cases, c)
		}
	}
	return o
}

// startBy starts the process of a plugin as a host does by this profile.
func startBy(profile plugin.Profile) func(cmd *exec.Cmd, dir string) (*exec.Cmd, error) {
	return func(cmd *exec.Cmd, dir string) (*exec.Cmd, error) {
		program, err := os.Open(cmd.Path)
		if err != nil {
			return nil, fmt.Errorf("open program: %w", err)
		}
		defer func() { _ = program.Close() }() // it was only read
		// Whoever wants it started ends it.
		started, err := profile.Command(context.Background(), program, cmd.Path, cmd.Env, cmd.ExtraFiles, dir)
		if err != nil {
			return nil, err
		}
		started.Stdout, started.Stderr = cmd.Stdout, cmd.Stderr
		started.WaitDelay, started.SysProcAttr = cmd.WaitDelay, cmd.SysProcAttr
		return started, started.Start()
	}
}

// verdictsText has a paragraph for each plugin.
func verdictsText(verdicts []verdict) string {
	var out strings.Builder
	for _, v := range verdicts {
		count := v.count()
		summary := fmt.Sprintf("Rules of the protocol: %d kept, %d broken, %d not applicable",
			count[conformance.Passed], count[conformance.Broken], count[conformance.NotApplicable])
		if len(v.Rules) == 0 {
			summary = "A host does not use it, and so the rules of the protocol are not checked"
		}
		word := "good"
		if v.broken() {
			word = "BAD"
		}
		out.WriteString(inspect.Printable(v.File) + ": " + word + ". " + summary + "\n")
		out.WriteString(inspect.Indented("    ", v.Problem))
		for _, f := range v.Rules {
			if f.Verdict == conformance.Broken {
				out.WriteString("    " + string(f.Rule) + ": " + f.Text + "\n")
				for _, message := range f.Messages {
					out.WriteString(inspect.Indented("        ", message))
				}
			}
		}
	}
	return out.String()
}
