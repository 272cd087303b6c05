package deployer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/providerconfig"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/redact"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// helmSelector selects Helm's objects.
var helmSelector = labels.Set{"app.kubernetes.io/managed-by": "Helm"}

// namespaces is the mapping of Namespaces in every API server.
var namespaces = target.Mapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}

// reasonRendered is the reason of the error about invalid objects of a chart.
const reasonRendered = "RenderedInvalid"

// reconcileObjects applies the objects of the chart, without a release.
func (j *helmJob) reconcileObjects(ctx context.Context, c *config.Config) (*sdk.Response, error) {
	objects, err := j.settledObjects(ctx, c)
	if err != nil {
		return j.End(), err
	}
	res, err := j.deployObjects(ctx, c, objects)
	if isOver := err == nil && res.InProgress == nil || len(sdk.Codes(err)) > 0; isOver && res != nil {
		j.dropRendering(ctx)
		res.ProviderStatus = j.Status.Unsaved()
	}
	return res, redactorOf(c, objects).HideError(err)
}

// redactorOf returns a redactor of values in errors from outside of Helm.
func redactorOf(c *config.Config, objects []helm.Object) *redact.Redactor {
	s := redact.New(c.Values)
	s.Publish(c.Release.Name, c.Release.Namespace)
	for _, o := range objects {
		s.LearnObject(o.JSON)
		s.Publish(o.Source)
	}
	return s
}

func (j *helmJob) deployObjects(ctx context.Context, c *config.Config, objects []helm.Object) (*sdk.Response, error) {
	plan, err := j.planOfObjects(ctx, c, objects)
	if err != nil {
		return nil, job.During(job.StepApply, err)
	}
	plan.AwaitServers = c.Checks.ByKind()
	deletion := prune.Deletion{Groups: c.DeletionDuringUpdate, Kept: keptOfObjects}
	applied, res, err := j.Apply(job.WithFields(ctx, j.deployer.settings.Strict), plan)
	if res != nil && len(sdk.Codes(err)) == 0 { // there is another call
		j.keepRendering(ctx, objects, c.Release.Namespace)
		res.ProviderStatus = j.Status.Unsaved()
	}
	if err != nil {
		return j.Unblock(ctx, plan, deletion, err)
	}
	if res != nil {
		return res, nil
	}
	j.noteAllApplied(ctx, applied, objects, c.Release.Namespace)
	if res, err := j.CleanUp(ctx, plan, applied, deletion); res != nil || err != nil {
		return res, err
	}
	return j.finish(ctx, c, nil, applied)
}

// objectsOf returns the objects of a rendering for the job, with the children in their places.
func objectsOf(rendered *helm.Result, children []sdk.Child) ([]helm.Object, error) {
	objects, err := replace(rendered.Objects, children)
	if err != nil {
		return nil, job.During(stepRender, err)
	}
	return slices.Concat(rendered.Definitions, objects), nil
}

// finish waits for the objects and reads the exports.
func (j *helmJob) finish(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, applied []apply.Applied,
) (*sdk.Response, error) {
	if res, err := j.CheckReadiness(ctx, c.Checks, applied); res != nil || err != nil {
		return res, err
	}
	exports, res, err := j.ReadExports(ctx, c.Exports, applied)
	if res != nil || err != nil {
		return res, err
	}
	exports, err = j.exportValues(ctx, c, archive, exports)
	if err != nil {
		return j.End(), err
	}
	j.forgetJob()
	return j.Done(exports), nil
}

// forgetJob drops the state for later calls of the job, so the status of an unchanged item stays the same. The job of
// a revision is kept: should its result be lost, force makes no other one.
func (j *helmJob) forgetJob() {
	if j.found && j.stored.Release != nil {
		found := *j.release
		found.JobID = j.stored.Release.JobID
		j.release = &found
	}
	if j.chart != nil {
		applied := *j.chart
		applied.AppliedIn = ""
		j.chart = &applied
	}
}

// exportValues adds the exports from the values of the rendering. Without an archive it fetches the chart.
func (j *helmJob) exportValues(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, exports map[string]any,
) (map[string]any, error) {
	if len(c.ValueExports) == 0 {
		return exports, nil
	}
	if archive == nil {
		fetched, err := j.fetch(ctx, c.Source)
		if err != nil {
			return nil, err
		}
		defer fetched.Release()
		archive = fetched
	}
	result, err := j.run(ctx, job.StepExport, &helm.Request{
		Action: helm.Values, Release: c.Release, Chart: helm.Chart{Path: archive.Path}, Values: c.Values, Options: c.Install,
	}, &observer{})
	if err != nil {
		return nil, err
	}
	exports, err = config.ExportValues(c.ValueExports, result.Values, exports)
	if err != nil {
		return nil, job.During(job.StepExport, err)
	}
	return exports, nil
}

// render renders the objects of the chart for a revision of the release, or with revision zero for no release. Without
// a release the objects of its hooks are ordinary objects.
func (j *helmJob) render(ctx context.Context, c *config.Config, archive *chartsource.Archive, revision int) (*helm.Result, error) {
	j.Request.Progress(stepRender, "rendering the chart")
	options := c.Install
	if revision > 1 {
		options = c.Upgrade
	}
	result, err := j.run(ctx, stepRender, &helm.Request{
		Action: helm.Render, Release: c.Release, Chart: helm.Chart{Path: archive.Path}, Values: c.Values, Revision: revision, Options: options,
	}, &observer{})
	if err != nil {
		return nil, err
	}
	if len(result.Ignored) > 0 && j.First() {
		j.Request.Warning(reasonTemplate,
			"what these templates render is no object, and left out: "+object.Enumerate(result.Ignored, ", ", maxListed))
	}
	for _, h := range result.Hooks {
		if !c.HelmDeployment && runsAtDeployment(h) {
			result.Objects = append(result.Objects, h.Object)
		}
	}
	return result, nil
}

// runsAtDeployment reports whether Helm would create a hook's object at an installation or upgrade of a release. An
// object only for a deletion, a rollback or a test would do harm.
func runsAtDeployment(h helm.Hook) bool {
	return slices.ContainsFunc(h.Events, func(event string) bool {
		return slices.Contains([]string{"pre-install", "post-install", "pre-upgrade", "post-upgrade"}, event)
	})
}

// planOfObjects returns the plan for a chart without a release.
func (j *helmJob) planOfObjects(ctx context.Context, c *config.Config, objects []helm.Object) (*apply.Plan, error) {
	manifests, err := j.manifestsOf(objects, c.Release.Namespace)
	if err != nil {
		return nil, err
	}
	for i := range manifests {
		manifests[i].Strategy = c.UpdateStrategy
	}
	if c.CreateNamespace {
		missing, err := j.makesNamespace(ctx, c.Release.Namespace)
		if err != nil {
			return nil, err
		}
		if missing {
			manifests = withNamespace(manifests, c.Release.Namespace)
		}
	}
	return apply.NewPlan(ctx, j.Client, manifests, j.Owner, j.Began)
}

// planOf returns a plan of objects written by Helm, for reading them.
func (j *helmJob) planOf(ctx context.Context, name helm.Release, objects []helm.Object) (*apply.Plan, error) {
	manifests, err := j.manifestsOf(objects, name.Namespace)
	if err != nil {
		return nil, err
	}
	return apply.NewPlan(ctx, j.Client, manifests, owner.Owner{}, j.Began)
}

// manifestsOf is the function manifestsOf with the fields of other clients.
func (j *helmJob) manifestsOf(objects []helm.Object, namespace string) ([]apply.Manifest, error) {
	manifests, err := manifestsOf(objects, namespace)
	for i, m := range manifests {
		manifests[i].Ignored = j.ignored.For(m.Object.GetKind(), m.Object.GetName())
	}
	return manifests, err
}

// manifestsOf returns the objects of a chart as manifests. Namespaced ones without a namespace get the release's.
func manifestsOf(objects []helm.Object, namespace string) ([]apply.Manifest, error) {
	var all []apply.Manifest
	var problems field.ErrorList
	for _, o := range objects {
		var path *field.Path
		if o.Source != "" {
			path = field.NewPath(o.Source)
		}
		parsed, p := object.Parse(o.JSON, path)
		problems = append(problems, p...)
		for _, m := range parsed {
			all = append(all, apply.Manifest{Manifest: m, DefaultNamespace: namespace, Policy: policyOf(m)})
		}
	}
	if len(problems) > 0 {
		return nil, sdk.ConfigurationError(reasonRendered, "%s", providerconfig.Describe(problems))
	}
	return all, nil
}

// policyAnnotation, with the value keep, keeps an unwanted object. Helm reads it in two ways: when it uninstalls a
// release, from the manifest and in any case of letters; when an upgrade drops the object, from the live object and to
// the letter.
const policyAnnotation = "helm.sh/resource-policy"

// policyOf returns the policy of an object of a chart, as Helm reads it when it uninstalls a release.
func policyOf(m object.Manifest) managedresource.Policy {
	if strings.ToLower(strings.TrimSpace(m.Object.GetAnnotations()[policyAnnotation])) == "keep" {
		return managedresource.PolicyKeep
	}
	return managedresource.PolicyManage
}

// kept returns the reason to keep an object dropped by the chart, as Helm reads it when it upgrades a release.
func kept(_ managedresource.ManagedResourceStatus, live metav1.Object) (why string) {
	if live.GetAnnotations()[policyAnnotation] == "keep" {
		return "annotation " + policyAnnotation + ": keep"
	}
	return ""
}

// keptOfObjects is kept for objects without a release. Helm has deleted none of them, so the policy in the chart
// counts as well.
func keptOfObjects(entry managedresource.ManagedResourceStatus, live metav1.Object) (why string) {
	if entry.Policy == managedresource.PolicyKeep {
		return "policy keep"
	}
	return kept(entry, live)
}

// withNamespace adds the namespace of the release, unless the chart has it. It stays after the item, as one created by
// Helm does.
func withNamespace(manifests []apply.Manifest, name string) []apply.Manifest {
	o := namespaceObject(name)
	for _, m := range manifests {
		if object.KeyOf(m.Object) == object.KeyOf(o) {
			return manifests
		}
	}
	return append([]apply.Manifest{{
		Manifest: object.Manifest{Path: field.NewPath("createNamespace"), Object: o}, Policy: managedresource.PolicyKeep,
		Strategy: managedresource.UpdateStrategyMerge, // an existing one stays as it is
	}}, manifests...)
}

// makesNamespace reports whether the namespace of the release is the job's to create, or was. An existing namespace of
// others, such as another item of the same namespace, is theirs.
func (j *helmJob) makesNamespace(ctx context.Context, name string) (bool, error) {
	if _, known := j.Status.Inventory.Get(object.KeyOf(namespaceObject(name))); known {
		return true, nil
	}
	_, err := j.Client.Metadata(namespaces, "").Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, target.Explain(j.Client.Host, fmt.Errorf("get the namespace %s of the release: %w", name, err))
	default:
		return false, nil
	}
}

func namespaceObject(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}
