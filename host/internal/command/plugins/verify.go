package plugins

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
	"time"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/host/internal/command/terminal"
	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/conformance"
)

// verification is a check of plugins.
type verification struct {
	items   []string
	timeout time.Duration
	local   local.Flags
	call    local.CallFlags
}

func newVerifyCommand(version string) *cobra.Command {
	v := &verification{local: local.Flags{Version: version}}
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check the plugins of a directory as a host does, and by the rules of the protocol",
		Long: `Check the plugins of a directory as a host does, and by the rules of the protocol.

First each plugin is started as a host with the configuration does: its file must be safe to run, have the checksum in
the configuration, and clash with no other plugin. Then the plugins not refused by the host go through the conformance
checks: each rule of the protocol has a name, and the report has the call and the details of each violation. The checks
start a program many times, with the confinement and the limits of the configuration.

Without --item nothing is deployed, and the rules about deployments are not checked. Each DeployItem is deployed by the
plugin of its type and deleted again, several times and with interruptions, at its Target in the file of --target.

With --attach, instead of DIR, a running plugin is checked, such as a plugin in a debugger: start it there with the
argument "attachable", and an address or it prints one.

The exit code is 1 if anything is wrong.`,
		Example: `  pergola plugins verify bin/plugins --item test/examples/mock.yaml
  pergola plugins verify bin/plugins --item item.yaml --target target.yaml
  pergola plugins verify /plugins --config host.yaml -o json`,
		Args: func(_ *cobra.Command, args []string) error { return v.local.OneOfFileAndAttach(args) },
	}
	flags := cmd.Flags()
	output := cli.AddOutput(flags)
	v.local.AddTo(flags)
	v.call.AddTo(flags)
	v.local.AddAttachTo(flags)
	flags.StringArrayVar(&v.items, "item", nil, "file with a DeployItem to deploy and delete; may be given several times")
	flags.DurationVar(&v.timeout, "timeout", 0, "maximum duration of each job of an item (default: its spec.timeout, "+
		"or else the plugin's own one for the type, or else one minute)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		verdicts, err := v.verify(cmd.Context(), args, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		err = cli.Print(cmd.OutOrStdout(), output.Value, verdicts, func(bool) string { return verdictsText(verdicts) })
		if err == nil && slices.ContainsFunc(verdicts, verdict.broken) {
			err = errors.New("a plugin has problems")
		}
		return err
	}
	return cmd
}

// verdict is the result for one plugin.
type verdict struct {
	// File of the plugin, or its address.
	File    string `json:"file"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Limits of its calls.
	statuspage.Limits
	// Problem is the reason why a host would not use the plugin; "" for none.
	Problem string `json:"problem,omitempty"`
	// Rules of the protocol; empty if the host refused the program, so that it was not run.
	Rules []finding `json:"rules,omitempty"`
}

// finding is the result for one rule, with its sentence.
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

// verify checks the plugins of a directory, or the attached plugin. An error is no verdict on a plugin.
func (v *verification) verify(ctx context.Context, args []string, stderr io.Writer) ([]verdict, error) {
	configured, err := v.local.Settings()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(strings.Join(args, "")) // no argument with --attach
	if err != nil {
		return nil, fmt.Errorf("find the plugin directory: %w", err)
	}
	options := v.local.Options(configured, v.local.Log(stderr), dir)
	cases, err := v.cases(ctx)
	if err != nil {
		return nil, err
	}
	plugins, err := local.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	found := plugins.Set.Status()
	if err := errors.Join(plugins.ReportPassedOver(stderr), plugins.Close(), checkServed(cases, found)); err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there are no plugins in %s", options.Dir)
	}
	verdicts := make([]verdict, 0, len(found))
	for _, status := range found {
		verdict, err := v.judge(ctx, status, options, cases, stderr)
		if err != nil {
			return nil, fmt.Errorf("check plugin %s: %w", status.File, err)
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts, nil
}

// judge checks the rules of the protocol for a plugin, unless the host refused its program.
func (v *verification) judge(
	ctx context.Context, s plugin.Status, options plugin.Options, cases []conformance.Case, stderr io.Writer,
) (verdict, error) {
	judged := verdict{File: s.File}
	if s.Problem != nil {
		judged.Problem = s.Problem.Error()
	}
	if s.Info != nil {
		judged.Name, judged.Version, judged.Limits = s.Info.Name, s.Info.Version, statuspage.LimitsOf(s.Info.Limits)
	}
	if s.State == plugin.Refused {
		return judged, nil
	}
	o := conformanceOptions(options, s, cases) //nolint:contextcheck // conformance ends its processes
	if v.local.Verbose {
		o.Output = stderr
	}
	var err error
	judged.Rules, err = v.checkRules(ctx, filepath.Join(options.Dir, s.File), o)
	return judged, err
}

// checkRules checks the rules of the protocol.
func (v *verification) checkRules(
	ctx context.Context, path string, o conformance.Options,
) (findings []finding, err error) {
	check, where := conformance.Binary, path
	if v.local.Attach != "" {
		check, where = conformance.Attached, v.local.Attach
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

// cases reads the items.
func (v *verification) cases(ctx context.Context) ([]conformance.Case, error) {
	var cases []conformance.Case
	for _, path := range v.items {
		read, err := v.call.Read(ctx, path)
		if err != nil {
			return nil, err
		}
		item := read.DeployItem
		named, err := read.Registries(ctx)
		if err != nil {
			return nil, err
		}
		item.Status.JobID = cmp.Or(item.Status.JobID, "verify")
		call := conformance.Call{
			DeployItem: item, Context: lscontext.WithoutCredentials(read.Context), Credentials: read.Credentials,
			OCMConfig: read.OCMConfig, Secrets: named, Targets: map[string]*sdk.Target{},
		}
		for name, t := range read.Targets {
			call.Targets[name] = &sdk.Target{
				Name: name, Type: t.Target.Spec.Type, Labels: t.Target.Labels, Annotations: t.Target.Annotations,
				Content: []byte(t.Content),
			}
		}
		if read.Target != nil {
			call.Target = call.Targets[read.Target.Target.Name]
		}
		cases = append(cases, conformance.Case{Name: path, Call: call, Timeout: v.timeout})
	}
	return cases, nil
}

// checkServed names the items without a plugin for their type.
func checkServed(cases []conformance.Case, found []plugin.Status) error {
	var errs []error
	for _, c := range cases {
		item := c.Call.DeployItem
		serves := func(s plugin.Status) bool { return s.Info != nil && slices.Contains(s.Info.Types, item.Spec.Type) }
		if !slices.ContainsFunc(found, serves) {
			errs = append(errs, fmt.Errorf("--item %s: no running plugin serves its type %q", c.Name, item.Spec.Type))
		}
	}
	return errors.Join(errs...)
}

// conformanceOptions returns the options for one plugin, with its profile and the items of its types.
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

// startBy starts the process of a plugin as a host does with a profile.
func startBy(profile plugin.Profile) func(cmd *exec.Cmd, dir string) (*exec.Cmd, error) {
	return func(cmd *exec.Cmd, dir string) (*exec.Cmd, error) {
		program, err := os.Open(cmd.Path)
		if err != nil {
			return nil, fmt.Errorf("open program: %w", err)
		}
		defer func() { _ = program.Close() }() // nothing was written
		// The caller ends the process.
		started, err := profile.Command(context.Background(), program, cmd.Path, cmd.Env, cmd.ExtraFiles, dir)
		if err != nil {
			return nil, err
		}
		started.Stdout, started.Stderr = cmd.Stdout, cmd.Stderr
		started.WaitDelay, started.SysProcAttr = cmd.WaitDelay, cmd.SysProcAttr
		return started, started.Start()
	}
}

// verdictsText formats a paragraph for each plugin.
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
		out.WriteString(text.Printable(v.File) + ": " + word + ". " + summary + "\n")
		out.WriteString(terminal.Indented("    ", v.Problem))
		if limits := v.DescribeLimits(); limits != "" {
			out.WriteString("    Limits of calls: " + text.Printable(limits) + "\n")
		}
		for _, f := range v.Rules {
			if f.Verdict == conformance.Broken {
				out.WriteString("    " + string(f.Rule) + ": " + f.Text + "\n")
				for _, message := range f.Messages {
					out.WriteString(terminal.Indented("        ", message))
				}
			}
		}
		out.WriteString(terminal.Indented("    ", notApplicable(v.Rules)))
	}
	return out.String()
}

// notApplicable names the rules that did not apply, by reason.
func notApplicable(rules []finding) string {
	var reasons []string
	names := map[string][]string{}
	for _, f := range rules {
		if f.Verdict != conformance.NotApplicable {
			continue
		}
		reason := strings.Join(f.Messages, "; ")
		if names[reason] == nil {
			reasons = append(reasons, reason)
		}
		names[reason] = append(names[reason], string(f.Rule))
	}
	var lines []string
	for _, reason := range reasons {
		lines = append(lines, "not applicable: "+strings.Join(names[reason], ", ")+": "+reason)
	}
	return strings.Join(lines, "\n")
}
