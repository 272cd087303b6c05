package sdktest

import (
	"testing"

	"github.com/pergola-deploy/pergola/sdk/conformance"
)

// Conform checks the rules of package conformance and reports each broken one by its name. For each case in turn it deploys the
// item and deletes it again. The plugin keeps the configuration that it has; how a program starts and ends is only checked of one
// that Start has started, with processes of their own.
func Conform(t testing.TB, plugin *Plugin, cases ...Case) {
	t.Helper()
	report, err := plugin.plugin.Check(t.Context(), conformance.Options{Cases: cases, KeepConfiguration: true})
	if err != nil {
		t.Fatalf("sdktest: %v", err)
	}
	for _, broken := range report.Broken() {
		for _, message := range broken.Messages {
			reportBroken(t, broken.Rule, message)
		}
	}
}

func reportBroken(t testing.TB, rule Rule, message string) {
	t.Helper()
	t.Errorf("sdktest: rule %s is broken: %s\n%s", rule, message, rule.Text())
}
