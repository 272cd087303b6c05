package diffreport

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestDiffText: a change of each kind. The job would fail.
func TestDiffText(t *testing.T) {
	t.Parallel()
	document := func(text string) json.RawMessage { return json.RawMessage(text) }
	const settings = `{"apiVersion":"v1","kind":"ConfigMap",` +
		`"data":{"a":"%s","b":"2","c":"3","d":"4","colour":"green","n":%s,"text":"one\n%s\n"}}`
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	report := New(item, []sdk.Change{
		{
			Object: "Namespace shop", Action: sdk.ActionCreate,
			After: document(`{"kind":"Namespace","metadata":{"name":"shop"}}`),
		},
		{
			Object: "ConfigMap shop/settings", Action: sdk.ActionUpdate,
			Before: document(fmt.Sprintf(settings, "1", "9007199254740993", "two")),
			After:  document(fmt.Sprintf(settings, "0", "9007199254740995", "three")),
		},
		{
			Object: "Job shop/migrate", Action: sdk.ActionRecreate, Note: "spec.template is immutable",
			Before: document(`{"spec":{"template":1}}`), After: document(`{"spec":{"template":2}}`),
		},
		{Object: "Secret shop/old", Action: sdk.ActionDelete, Before: document(`{"data":{"password":"(hidden)"}}`)},
		{Object: "PersistentVolumeClaim shop/data", Action: sdk.ActionKeep, Before: document(`{"a":1}`)},
		{
			Object: "Deployment shop/web", Action: sdk.ActionFail,
			Note: "spec.selector: is immutable\nset recreate: true\x1b[31m",
		},
		{
			Object: "Secret shop/same", Action: sdk.ActionUpdate, Note: "what differs is hidden",
			Before: document(`{"a":1}`), After: document(`{"a":1}`),
		},
		{Object: "Service shop/web", Action: sdk.ActionUpdate, Note: "a warning", Waits: "no address"},
		{Object: "Service shop/db", Action: sdk.ActionKeep, Waits: "no address"},
	})
	commandtest.ExpectGolden(t, "diff.golden.txt", report.Text(cli.PaletteFor(cli.ColourNever, nil)))
	commandtest.ExpectGolden(t, "diff-colour.golden.txt", report.Text(cli.PaletteFor(cli.ColourAlways, nil)))
	var asYAML strings.Builder
	if err := cli.PrintYAML(&asYAML, report); err != nil {
		t.Fatal(err)
	}
	commandtest.ExpectGolden(t, "diff.golden.yaml", asYAML.String())
	if code := cli.Code(report.Verdict()); code != cli.ExitFailure {
		t.Errorf("expected the exit code %d, but found %d", cli.ExitFailure, code)
	}
}
