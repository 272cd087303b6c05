package deployer_test

import (
	"encoding/json"
	"fmt"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// run carries a job out to its end, as a host does. Only a fault excuses a failure.
func (g *game) run(p *player, do plugintest.Operation) *sdktest.Result {
	plugintest.NewJob(p.item)
	g.SetConfig(p.item, g.config(p.model))
	result, struck := (*sdktest.Result)(nil), true
	if g.strikeAt > 0 {
		result, struck = g.Disturb(do, p.item, g.strikeAt, g.fault)
	}
	if struck {
		result = g.UntilDone(do, p.item)
	}
	keepConditions(p.item, result.Conditions)
	return result
}

// snapshot returns the objects of the model as they are now.
func (g *game) snapshot() map[slot]*modelObject {
	all := map[slot]*modelObject{}
	for at, o := range g.model.objects {
		all[at] = o.clone()
	}
	return all
}

// check compares the target and the provider status with the model. before is what the model had before the job: what has not changed
// since was not touched.
func (g *game) check(p *player, before map[slot]*modelObject) {
	live, err := g.look()
	if err != nil {
		g.t.Fatal(err)
	}
	want, got := map[string]fields{}, map[string]fields{}
	for at, o := range g.model.objects {
		want[at.String()] = o.fields
	}
	for at, o := range live {
		if got[at.String()], err = g.fieldsOf(at, o); err != nil {
			g.t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		g.t.Fatalf("after a job of item %s: -want +got:\n%s\n%s", p.model.name, diff, p.item.Spec.Config.Raw)
	}
	for at, o := range live {
		expected := g.model.objects[at]
		if before[at] != nil && before[at].id == expected.id && !g.model.touched[at] && g.versions[at] != o.GetResourceVersion() {
			g.t.Fatalf("a job of item %s touched %s, which it has no business with: %s", p.model.name, at, p.item.Spec.Config.Raw)
		}
		g.versions[at] = o.GetResourceVersion()
		uid, known := g.uids[expected.id]
		if known && uid != o.GetUID() {
			g.t.Fatalf("a job of item %s made a new %s", p.model.name, at)
		}
		g.uids[expected.id] = o.GetUID()
	}
	for at, o := range before {
		if now := g.model.objects[at]; now != nil && now.id != o.id && g.uids[now.id] == g.uids[o.id] {
			g.t.Fatalf("a job of item %s did not recreate %s", p.model.name, at)
		}
	}
	g.checkStatus(p)
}

// checkStatus compares the provider status with the model: it lists all that the item manages, by its uid.
func (g *game) checkStatus(p *player) {
	want, got := map[string]string{}, map[string]string{}
	for at, known := range p.model.ledger {
		want[at.kind+" "+g.nameOf(at)] = fmt.Sprint(known.policy, " ", g.uids[known.id])
	}
	for _, m := range g.status(p).ManagedResources {
		got[m.Resource.Kind+" "+m.Resource.Name] = fmt.Sprint(m.Policy, " ", m.Resource.UID)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		g.t.Fatalf("item %s manages: -want +got:\n%s\n%s", p.model.name, diff, p.item.Spec.Config.Raw)
	}
}

func (g *game) status(p *player) v1alpha2.ProviderStatus {
	var status v1alpha2.ProviderStatus
	if p.item.Status.ProviderStatus != nil {
		if err := json.Unmarshal(p.item.Status.ProviderStatus.Raw, &status); err != nil {
			g.t.Fatal(err)
		}
	}
	return status
}

// checkDrift compares the condition. A fault may let a drift be forgotten, as who has repaired it did not come to say so.
func (g *game) checkDrift(p *player, result *sdktest.Result, expected modelResult, faulty bool) {
	drifted := false
	for _, c := range result.Conditions {
		drifted = drifted || c.Type == managedresource.ConditionDrifted && c.Status == landscaper.ConditionTrue
	}
	if drifted != expected.drifted && (drifted || !faulty) {
		g.t.Fatalf("item %s: expected Drifted to be %t, but found %v\n%s", p.model.name, expected.drifted, result.Conditions, p.item.Spec.Config.Raw)
	}
	if !expected.succeeds {
		return
	}
	for _, c := range p.item.Status.Conditions {
		if c.Type == managedresource.ConditionDrifted && c.Status == landscaper.ConditionTrue && !drifted {
			g.t.Fatalf("item %s: a job that has found nothing left %v", p.model.name, c)
		}
	}
}

// learn takes over what a fault may have let be forgotten: how an object looked that the policy immutable lets nobody write again.
func (g *game) learn(p *player) {
	forgotten := map[string]bool{}
	for _, m := range g.status(p).ManagedResources {
		forgotten[m.Resource.Kind+" "+m.Resource.Name] = m.Applied == ""
	}
	for at, known := range p.model.ledger {
		if known.policy == "immutable" && forgotten[at.kind+" "+g.nameOf(at)] {
			known.memo = nil
			p.model.ledger[at] = known
		}
	}
}
