package v1alpha1

const (
	// OperationAnnotation asks for an operation on an object; its value is one of the Operation constants.
	OperationAnnotation = GroupName + "/operation"
	// DeployerTypeAnnotation repeats spec.type of a DeployItem, so that the metadata alone lets a deployer decide whether
	// the item concerns it.
	DeployerTypeAnnotation = GroupName + "/deployer-type"
	// DeployerTargetNameAnnotation repeats spec.target.name of a DeployItem, or holds NoTargetName.
	DeployerTargetNameAnnotation = GroupName + "/deployer-target-name"
	// NoTargetName is the value of DeployerTargetNameAnnotation for an item without a target.
	NoTargetName = ".noTargetName"
	// DeleteWithoutUninstallAnnotation with the value "true" lets a deletion remove only the finalizer.
	DeleteWithoutUninstallAnnotation = GroupName + "/delete-without-uninstall"

	// Finalizer is set on a DeployItem before its deployer is called for the first time, and goes after a successful
	// deletion.
	Finalizer = "finalizer.landscaper.gardener.cloud"

	// KubernetesClusterTargetType is the type of Kubernetes clusters.
	KubernetesClusterTargetType = GroupName + "/kubernetes-cluster"

	// DefaultContextName is the Context of a DeployItem without another.
	DefaultContextName = "default"
)

// The values of OperationAnnotation of a DeployItem. Any other is left alone.
const (
	// OperationReconcile asks for a new job, to begin after the job under way.
	OperationReconcile = "reconcile"
	// OperationTestReconcile is Landscaper's own name of OperationReconcile.
	OperationTestReconcile = "test-reconcile"
	// OperationForceReconcile asks the deployer to reconcile by force, although nothing may have changed: in the job
	// under way, or in a new one.
	OperationForceReconcile = "force-reconcile"
	// OperationAbort ends the job under way as failed.
	OperationAbort = "abort"
)
