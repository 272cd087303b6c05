package helm

import (
	"encoding/json"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/redact"
)

// words are frequent in the messages of Helm, and are values every now and then.
var words = strings.Fields(`
	chart definition deploy deployed executing hook install release render rendered renders revision rollback template
	upgrade
	pre-install post-install pre-upgrade post-upgrade pre-rollback post-rollback pre-delete post-delete
`)

// Hiding returns a redactor of values in texts about a release.
func Hiding(values json.RawMessage, r Release) *redact.Redactor {
	hidden := redact.New(values)
	hidden.Publish(words...)
	hidden.Publish(r.Name, r.Namespace)
	return hidden
}
