package validate

import (
	"fmt"
	"strings"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk"
)

// report is the result of the command.
type report struct {
	// Items counts the DeployItems.
	Items     int         `json:"items"`
	Problems  []problem   `json:"problems"`
	Unchecked []unchecked `json:"unchecked"`

	// unserved counts the unchecked items without a plugin.
	unserved int
}

// problem is one problem of an item, or of a file without a readable object.
type problem struct {
	File    string `json:"file"`
	Item    string `json:"item,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// unchecked is an item whose provider configuration no plugin has checked.
type unchecked struct {
	File   string `json:"file"`
	Item   string `json:"item"`
	Reason string `json:"reason"`
}

func newReport() *report { return &report{Problems: []problem{}, Unchecked: []unchecked{}} }

func (r *report) problem(file, item string, p sdk.Problem) {
	r.Problems = append(r.Problems, problem{File: file, Item: item, Field: p.Field, Message: p.Message})
}

func (r *report) unchecked(i item, reason string) {
	r.Unchecked = append(r.Unchecked, unchecked{File: i.file, Item: i.shown, Reason: reason})
}

// inConfig returns a problem of a provider configuration as one of its item.
func inConfig(p sdk.Problem) sdk.Problem {
	const config = "spec.config"
	switch {
	case p.Field == "" || p.Field == config:
		p.Field = config
	case strings.HasPrefix(p.Field, "["):
		p.Field = config + p.Field
	default:
		p.Field = config + "." + p.Field
	}
	return p
}

// text has a line for each problem and for each unchecked item, and the numbers of them.
func (r *report) text() string {
	var out strings.Builder
	line := func(parts ...string) {
		var named []string
		for _, part := range parts {
			if part != "" {
				named = append(named, text.Printable(part))
			}
		}
		fmt.Fprintln(&out, strings.Join(named, ": "))
	}
	for _, p := range r.Problems {
		line(p.File, p.Item, p.Field, p.Message)
	}
	for _, u := range r.Unchecked {
		line(u.File, u.Item, "not checked", u.Reason)
	}
	fmt.Fprintf(&out, "DeployItems: %d, problems: %d, not checked: %d\n", r.Items, len(r.Problems), len(r.Unchecked))
	return out.String()
}

// verdict is the exit code. Without a problem an item without a plugin is an error: nothing is known of it.
func (r *report) verdict() error {
	switch {
	case len(r.Problems) > 0:
		return &cli.ExitError{Code: cli.ExitNo}
	case r.unserved > 0:
		return cli.Failing(fmt.Errorf("no plugin serves %d of %d DeployItems; name the plugins of the host with "+
			"--plugin-dir or --attach", r.unserved, r.Items))
	default:
		return nil
	}
}
