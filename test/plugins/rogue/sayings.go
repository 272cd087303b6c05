package main

import (
	"strings"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1" //nolint:depguard // it does without the sdk
)

// sayings are the messages that a call consists of. The empty one is as it should be.
func sayings() map[string][]*deployerv1.PluginMessage {
	const (
		badJSON       = `{"apiVersion":`
		badTextInJSON = `{"apiVersion":"v1","kind":"` + badText + `"}`
	)
	return map[string][]*deployerv1.PluginMessage{
		"": {succeeded("{}")},

		"no-result":   {},
		"no-outcome":  {result(&deployerv1.Result{})},
		"two-results": {succeeded("{}"), failed(&deployerv1.Error{Message: "no, it failed"})},
		"too-large":   {succeeded(`{"large":"` + strings.Repeat("x", 65<<20) + `"}`)},

		"bad-progress": {progress(badText, badText), succeeded("{}")},
		"bad-event":    {event(badText, badText), succeeded("{}")},
		"bad-code":     {failed(&deployerv1.Error{Codes: []string{badText}, Message: "message"})},
		"bad-reason":   {failed(&deployerv1.Error{Operation: badText, Reason: badText, Message: "message"})},
		"bad-message":  {failed(&deployerv1.Error{Message: badText})},
		"bad-wait":     {waiting(badText)},

		"json-exports": {succeeded(badJSON)},
		"text-exports": {succeeded(badTextInJSON)},
		"json-status":  {saved(badJSON), succeeded("{}")},
		"text-status":  {saved(badTextInJSON), succeeded("{}")},
		"json-result":  {withStatus(badJSON)},
		"text-result":  {withStatus(badTextInJSON)},
	}
}

func result(r *deployerv1.Result) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{Result: r}}
}

func succeeded(exports string) *deployerv1.PluginMessage {
	return result(&deployerv1.Result{Outcome: &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{Exports: []byte(exports)}}})
}

func failed(e *deployerv1.Error) *deployerv1.PluginMessage {
	return result(&deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: &deployerv1.Failed{Errors: []*deployerv1.Error{e}}}})
}

func waiting(text string) *deployerv1.PluginMessage {
	return result(&deployerv1.Result{Outcome: &deployerv1.Result_InProgress{InProgress: &deployerv1.InProgress{WaitingFor: text}}})
}

func withStatus(document string) *deployerv1.PluginMessage {
	return result(&deployerv1.Result{
		Outcome:        &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{}},
		ProviderStatus: []byte(document),
	})
}

func saved(document string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ProviderStatus{
		ProviderStatus: &deployerv1.ProviderStatus{Sequence: 1, Document: []byte(document)},
	}}
}

func progress(step, message string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Progress{
		Progress: &deployerv1.Progress{Step: step, Message: message},
	}}
}

func event(reason, message string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Event{
		Event: &deployerv1.Event{Reason: reason, Message: message},
	}}
}

func heartbeat() *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Heartbeat{Heartbeat: &deployerv1.Heartbeat{}}}
}
