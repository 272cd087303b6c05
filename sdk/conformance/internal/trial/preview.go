package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/sdk"
)

// view is the world as the plugin shows it: the changes of Diff, and the holdings for the item.
type view struct {
	changes  []sdk.Change
	holdings []sdk.Holding
}

// plan returns the objects and actions of the changes. States of deployed objects may change at any time.
func (v view) plan() view {
	plan := view{holdings: v.holdings}
	for _, c := range v.changes {
		plan.changes = append(plan.changes, sdk.Change{Object: c.Object, Action: c.Action})
	}
	return plan
}

// creates reports whether both have the creation of the same object.
func (v view) creates(other view) bool {
	return slices.ContainsFunc(v.changes, func(c sdk.Change) bool {
		return c.Action == sdk.ActionCreate && slices.ContainsFunc(other.changes, func(o sdk.Change) bool {
			return o.Action == sdk.ActionCreate && o.Object == c.Object
		})
	})
}

// look asks for a view.
func (t *Trial) look(ctx context.Context, name string, status json.RawMessage) (v view) {
	if t.Can.Diff {
		t.Checked(Diff)
		var err error
		diff := func(ctx context.Context) ([]sdk.Change, error) { return t.Plugin.Diff(ctx, status) }
		if v.changes, err = ask(ctx, t, diff); err != nil {
			t.breaks(Diff, name, "expected changes, but found: %v", err)
			t.Can.Diff = false // the further calls would take as long
		}
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	if t.Can.Collect {
		// Without the access to the host's cluster there may be none; rule holdings is about that.
		all, _ := t.Plugin.Holdings(ctx)
		for _, h := range all {
			if h.UID == t.UID {
				v.holdings = append(v.holdings, h)
			}
		}
		slices.SortFunc(v.holdings, func(a, b sdk.Holding) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return v
}

// preview makes the calls without an effect, before the item is deployed, and returns the view.
func (t *Trial) preview(ctx context.Context) view {
	before := t.look(ctx, "Diff", nil)
	unchanged := func(rule Rule, name string) {
		if after := t.look(ctx, "Diff after "+name, nil); !reflect.DeepEqual(before, after) {
			t.breaks(rule, name, "it must change nothing, but Diff has %d changes afterwards instead of the %d of before, "+
				"or there are other holdings", len(after.changes), len(before.changes))
		}
	}
	if t.Can.Diff {
		unchanged(Diff, "Diff")
	}
	if t.Can.Validate {
		t.validate(ctx)
		unchanged(Validate, "Validate")
	}
	if t.Can.Render {
		t.renderTwice(ctx)
		unchanged(Render, "Render")
	}
	return before
}

func (t *Trial) validate(ctx context.Context) {
	validate := func(config json.RawMessage) ([]sdk.Problem, error) {
		return ask(ctx, t, func(ctx context.Context) ([]sdk.Problem, error) { return t.Plugin.Validate(ctx, config) })
	}
	if problems, err := validate(t.Config); err != nil || len(problems) > 0 {
		t.breaks(Validate, "Validate", "expected no problems of a valid provider configuration, but found %v (error %v)",
			problems, err)
	}
	problems, err := validate(t.WithUnknown)
	if err != nil || !slices.ContainsFunc(problems, func(p sdk.Problem) bool {
		return strings.Contains(p.Field+" "+p.Message, t.UnknownField)
	}) {
		t.breaks(Validate, "Validate", "expected a problem with the name of the unknown field %s, but found %v (error %v)",
			t.UnknownField, problems, err)
	}
}

func (t *Trial) renderTwice(ctx context.Context) {
	t.Checked(Render)
	first, err := t.render(ctx, nil)
	if err != nil {
		t.breaks(Render, "Render", "expected desired objects, but found: %v", err)
		return
	}
	if second, err := t.render(ctx, nil); err != nil || !reflect.DeepEqual(first, second) {
		t.breaks(Render, "Render",
			"there were %d desired objects at first, and %d others afterwards (error %v)",
			len(first), len(second), err)
	}
}

// inspect looks at the deployed item, and makes the calls without an effect.
func (t *Trial) inspect(ctx context.Context, before view, status json.RawMessage) {
	const name = "Diff after success"
	deployed := t.look(ctx, name, status).plan()
	unchanged := func(rule Rule, name string) {
		if after := t.look(ctx, "Diff after "+name, status).plan(); !reflect.DeepEqual(deployed, after) {
			t.breaks(rule, name, "it must change nothing, but Diff has %d changes afterwards instead of the %d of before, "+
				"or there are other holdings", len(after.changes), len(deployed.changes))
		}
	}
	if t.Can.Diff {
		if deployed.creates(before) && reflect.DeepEqual(deployed.changes, before.plan().changes) {
			t.breaks(Diff, name, "the %d changes are those of before the deployment", len(deployed.changes))
		}
		unchanged(Diff, name)
	}
	if !t.Can.CheckHealth {
		return
	}
	t.Checked(CheckHealth)
	limited, cancel := context.WithTimeout(ctx, t.Timeout)
	end := t.answered(limited, Call{Method: MethodCheckHealth, Name: string(MethodCheckHealth), Status: status})
	cancel()
	if !end.Succeeded && end.InProgress == nil {
		t.breaks(CheckHealth, "CheckHealth after success", "expected health or a lack, but it %s", end.Text)
	}
	if end.Saved {
		t.breaks(CheckHealth, "CheckHealth after success", "it has saved a provider status")
	}
	unchanged(CheckHealth, "CheckHealth after success")
}

// forgotten checks that nothing is left of a deleted item.
func (t *Trial) forgotten(ctx context.Context, before view) {
	const name = "Diff after Delete"
	after := t.look(ctx, name, nil)
	if before.creates(before) && !after.creates(before) {
		t.breaks(Delete, name, "expected creations again, as before the first job, but there are %d "+
			"other changes: the deletion has left everything behind", len(after.changes))
	}
	if len(after.holdings) > 0 {
		t.breaks(Delete, "Holdings after Delete", "%d of the item are left", len(after.holdings))
	}
}
