package conformance

import (
	"cmp"
	"fmt"
	"io"
	"os/exec"
	"time"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/bounds"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/launch"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/strange"
)

// Options are for the start of a plugin and its checks. The zero value is of use.
type Options struct {
	// Env adds environment variables of the form "name=value" to the few that a plugin gets.
	Env []string
	// Args are the arguments of the program.
	Args []string
	// Configuration is a valid document for Configure, YAML or JSON; empty for the defaults.
	Configuration []byte
	// KeepConfiguration leaves a plugin as it is configured: Configure is not called at all.
	KeepConfiguration bool
	// Cases are the deploy items to deploy and delete. Without any, some rules are not applicable.
	Cases []Case
	// Start starts the command of the plugin in another way than its method Start, such as confined, and returns the
	// started command; nil for that method. dir is writable for the plugin: TMPDIR, HOME and the directory of its
	// socket.
	Start func(cmd *exec.Cmd, dir string) (*exec.Cmd, error)
	// Output gets the plugin's standard output and standard error; may be nil. Its Write is called by one goroutine at
	// a time.
	Output io.Writer
	// Broken gets each rule broken by a call of the Plugin, also from several goroutines at a time; may be nil. Check
	// reports its findings itself.
	Broken func(rule Rule, message string)

	limits *bounds.Limits // nil for the usual ones
}

// Case is a valid deploy item to deploy and delete.
type Case struct {
	// Name of the case in messages.
	Name string
	// Call to carry out. Its item has a provider configuration and no provider status. OnSave, OnMessage and Stop are
	// not used.
	Call Call
	// Timeout of each job; zero for the item's spec.timeout, or else the plugin's own one for the type, or else one
	// minute.
	Timeout time.Duration
}

func (o *Options) bounds() bounds.Limits { return *cmp.Or(o.limits, new(bounds.Usual())) }

// launch returns the options for the start of the program.
func (o *Options) launch() launch.Options {
	return launch.Options{Env: o.Env, Args: o.Args, Start: o.Start, Output: o.Output, Timeout: o.bounds().Probe}
}

// prepared returns the cases with their defaults for this plugin. The error names a missing or wrong part.
func (o *Options) prepared(info *deployerv1.GetInfoResponse) ([]Case, error) {
	cases := make([]Case, 0, len(o.Cases))
	for _, c := range o.Cases {
		if c.Call.DeployItem == nil || c.Call.DeployItem.Spec.Config == nil {
			return nil, fmt.Errorf("case %q needs a deploy item with a provider configuration", c.Name)
		}
		if _, err := strange.WithField(c.Call.DeployItem.Spec.Config.Raw); err != nil {
			return nil, fmt.Errorf("the provider configuration of case %q must be a JSON object: %w", c.Name, err)
		}
		timeout, err := bounds.Job(c.Call.DeployItem, info)
		if err != nil {
			return nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
		c.Timeout = cmp.Or(c.Timeout, timeout)
		c.Call.OnSave, c.Call.OnMessage, c.Call.Stop = nil, nil, nil
		cases = append(cases, c)
	}
	return cases, nil
}
