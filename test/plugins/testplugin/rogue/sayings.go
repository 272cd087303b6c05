package rogue

const (
	heartbeat = `heartbeat {}`
	succeeds  = `result { succeeded { exports: '{}' } }`
)

// sayings are the messages that a call consists of. The empty one is as it should be.
var sayings = map[string][]string{
	"":             {succeeds},
	"no-result":    {},
	"two-results":  {succeeds, `result { failed { errors { message: "no, it failed" } } }`},
	"json-exports": {`result { succeeded { exports: '{"apiVersion":' } }`},
	"json-status":  {`provider_status { sequence: 1 document: '{"apiVersion":' }`, succeeds},
}
