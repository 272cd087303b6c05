package plugins

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/text"
)

// printer prints the messages of a plugin, each in a line of text or of JSON.
type printer struct {
	out  io.Writer
	json bool
	// err has the failed prints.
	err error
}

// fields are the JSON form of a message.
type fields map[string]any

// print prints a message of a kind, or a value as JSON.
func (p *printer) print(kind, message string, value any) {
	var err error
	if p.json {
		err = json.NewEncoder(p.out).Encode(fields{kind: value})
	} else {
		err = cli.PrintText(p.out, fmt.Sprintf("%-15s %s\n", kind, text.Printable(message)))
	}
	p.err = errors.Join(p.err, err)
}

func (p *printer) saved(document []byte) {
	p.print("providerStatus", string(document), json.RawMessage(document))
}

// outcome prints the result of a call. The error is that of all prints so far.
func (p *printer) outcome(o *plugin.Outcome) error {
	if o.ProviderStatus != nil {
		p.saved(o.ProviderStatus)
	}
	for _, c := range o.Conditions {
		p.print("condition", fmt.Sprintf("%s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message),
			fields{"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message})
	}
	switch {
	case o.Succeeded != nil:
		text := "without exports"
		if o.Succeeded.Exports != nil {
			text = "exports " + string(o.Succeeded.Exports)
		}
		p.print("succeeded", text, fields{"exports": json.RawMessage(o.Succeeded.Exports)})
	case o.InProgress != nil:
		text := fmt.Sprintf("waits for %s; to be called again after %s",
			cmp.Or(o.InProgress.WaitingFor, "something that it does not name"), cmp.Or(o.InProgress.PollAfter, defaultPoll))
		p.print("inProgress", text,
			fields{"waitingFor": o.InProgress.WaitingFor, "pollAfterSeconds": o.InProgress.PollAfter.Seconds()})
	default:
		for _, e := range o.Errors {
			p.print("failed", local.ErrorText(e),
				fields{"codes": e.Codes, "operation": e.Operation, "reason": e.Reason, "message": e.Message})
		}
	}
	return p.err
}
