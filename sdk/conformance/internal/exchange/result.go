package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// finish takes the result. The error says that it has no outcome.
func (x *conversation) finish(in *deployerv1.Result) error {
	if len(in.GetProviderStatus()) > 0 {
		x.checkStatus(in.GetProviderStatus())
	}
	outcome, err := hostside.ReadResult(in)
	if err != nil {
		x.breaks(OneResult, "%v", err)
		return err
	}
	x.end.Outcome = outcome
	if err := sdk.CheckConditions(outcome.Conditions); err != nil {
		x.breaks(Conditions, "%v", err)
	}
	switch {
	case outcome.Succeeded != nil:
		if x.end.Exports, err = decodeExports(outcome.Succeeded.Exports); err != nil {
			x.breaks(Result, "%v", err)
		}
	case outcome.InProgress != nil:
		if outcome.InProgress.WaitingFor == "" {
			x.breaks(Result, "the job is in progress, but the result does not say what it waits for")
		}
		if outcome.InProgress.PollAfter < 0 {
			x.breaks(Result, "the job is to be polled after %s", outcome.InProgress.PollAfter)
		}
	default:
		for _, flaw := range FlawsOf(in.GetFailed()) {
			x.breaks(Result, "%s", flaw)
		}
	}
	return nil
}

// FlawsOf lists what is missing in a failure.
func FlawsOf(in *deployerv1.Failed) []string {
	if in != nil && len(in.GetErrors()) == 0 {
		return []string{"the call failed without an error"}
	}
	var flaws []string
	for _, e := range in.GetErrors() {
		if e.GetReason() == "" || e.GetMessage() == "" {
			flaws = append(flaws, fmt.Sprintf("an error has reason %.100q and message %.100q; it needs both",
				e.GetReason(), e.GetMessage()))
		}
	}
	return flaws
}

// decodeExports reads exports without a loss of digits.
func decodeExports(document []byte) (exports map[string]any, err error) {
	if len(document) == 0 {
		return nil, nil //nolint:nilnil // a job without exports is an ordinary one
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&exports); err != nil {
		return nil, fmt.Errorf("decode exports: %w", err)
	}
	if !utf8.Valid(document) {
		return nil, errors.New("decode exports: they are not UTF-8")
	}
	return exports, nil
}
