package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// Options says how a plugin is started and what it is checked with. The zero value is of use.
type Options struct {
	// Env adds environment variables of the form "name=value" to the few that a plugin gets.
	Env []string
	// Args are the arguments of the program.
	Args []string
	// Configuration is a valid document for Configure, YAML or JSON; empty for the defaults.
	Configuration []byte
	// KeepConfiguration leaves a plugin as it is configured: Configure is not called at all.
	KeepConfiguration bool
	// Cases are the deploy items to deploy and delete. Without any, what needs one is not applicable.
	Cases []Case
	// Start starts the command of the plugin in another way than its method Start, such as confined, and returns the
	// command that it has started; nil for that method. dir is what the plugin may write to: TMPDIR, HOME and the
	// directory of its socket.
	Start func(cmd *exec.Cmd, dir string) (*exec.Cmd, error)
	// Output gets what the plugin writes to its standard output and standard error; nil for nobody. Its Write is called
	// by one goroutine at a time.
	Output io.Writer
	// Broken gets each rule that a call of the Plugin breaks, also from several goroutines at a time; nil for
	// nobody. Check reports what it finds itself.
	Broken func(rule Rule, message string)

	limits *limits // nil for the usual ones
}

// Case is a valid deploy item that is deployed and deleted again.
type Case struct {
	// Name of the case in messages.
	Name string
	// Call to carry out. Its item has a provider configuration and no provider status. OnSave, OnMessage and Stop are
	// not used.
	Call Call
	// Timeout of each job; zero for one minute.
	Timeout time.Duration
}

// limits bounds what a plugin may take its time for.
type limits struct {
	// answer is how soon a plugin has to answer what it can answer at once.
	answer time.Duration
	// probe is how soon a program has to shake hands, and a call for an item that cannot be deployed has to end.
	probe time.Duration
	// end is how soon a process has to end after it was told to.
	end time.Duration
	// silence is how long a call may say nothing. It is more than the protocol allows, for the sake of slow machines.
	silence time.Duration
	// pause is how long a plugin is watched for something that must not happen, and when a call is cut short in which
	// the deployer has said nothing yet.
	pause time.Duration
	// large is close to the size of the largest message that the protocol allows.
	large int
}

func (o *Options) bounds() limits {
	if o.limits != nil {
		return *o.limits
	}
	return usualLimits()
}

func usualLimits() limits {
	return limits{
		answer:  10 * time.Second,
		probe:   30 * time.Second,
		end:     10 * time.Second,
		silence: 20 * time.Second,
		pause:   300 * time.Millisecond,
		large:   60 << 20,
	}
}

// prepared returns the cases with their defaults, or says what is missing.
func (o *Options) prepared() ([]Case, error) {
	cases := make([]Case, 0, len(o.Cases))
	for _, c := range o.Cases {
		if c.Call.DeployItem == nil || c.Call.DeployItem.Spec.Config == nil {
			return nil, fmt.Errorf("case %q needs a deploy item with a provider configuration", c.Name)
		}
		if _, err := withUnknownField(c.Call.DeployItem.Spec.Config.Raw); err != nil {
			return nil, fmt.Errorf("the provider configuration of case %q must be a JSON object: %w", c.Name, err)
		}
		if c.Timeout == 0 {
			c.Timeout = time.Minute
		}
		c.Call.OnSave, c.Call.OnMessage, c.Call.Stop = nil, nil, nil
		cases = append(cases, c)
	}
	return cases, nil
}

// unknownField is added to a document that must then be refused.
const unknownField = "conformanceUnknownField"

// withUnknownField returns a JSON object with an unknown field.
func withUnknownField(document []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(document, &fields); err != nil {
		return nil, err
	}
	if fields == nil { // the document was null
		fields = map[string]json.RawMessage{}
	}
	fields[unknownField] = json.RawMessage("true")
	return json.Marshal(fields)
}
