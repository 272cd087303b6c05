package managedresource

// DeletionGroup is a step of a deletion. Exactly one of its fields is set.
type DeletionGroup struct {
	// PredefinedResourceGroup selects managed objects by their scope.
	PredefinedResourceGroup *PredefinedResourceGroup `json:"predefinedResourceGroup,omitempty"`
	// CustomResourceGroup selects objects by kind and name.
	CustomResourceGroup *CustomResourceGroup `json:"customResourceGroup,omitempty"`
}

// PredefinedResourceGroupType names a predefined selection of managed objects.
type PredefinedResourceGroupType string

// The predefined selections.
const (
	// PredefinedNamespaced: all namespaced objects.
	PredefinedNamespaced PredefinedResourceGroupType = "namespaced-resources"
	// PredefinedClusterScoped: all cluster-scoped objects but CustomResourceDefinitions.
	PredefinedClusterScoped PredefinedResourceGroupType = "cluster-scoped-resources"
	// PredefinedCRDs: all CustomResourceDefinitions.
	PredefinedCRDs PredefinedResourceGroupType = "crds"
	// PredefinedEmpty: nothing.
	PredefinedEmpty PredefinedResourceGroupType = "empty"
)

// PredefinedResourceGroup selects managed objects by their scope.
type PredefinedResourceGroup struct {
	// Type names the selection.
	Type PredefinedResourceGroupType `json:"type,omitempty"`
	// ForceDelete removes the finalizers of the objects.
	ForceDelete bool `json:"forceDelete,omitempty"`
}

// CustomResourceGroup selects objects by kind and name.
type CustomResourceGroup struct {
	// Resources select the objects; one match is enough.
	Resources []ResourceType `json:"resources,omitempty"`
	// ForceDelete removes the finalizers of the objects.
	ForceDelete bool `json:"forceDelete,omitempty"`
	// DeleteAllResources deletes objects of these kinds whether they are managed or not.
	DeleteAllResources bool `json:"deleteAllResources,omitempty"`
	// TargetName names another Target to delete on. Needs DeleteAllResources.
	TargetName *string `json:"targetName,omitempty"`
}

// ResourceType selects objects of one kind.
type ResourceType struct {
	// APIVersion of the objects.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the objects.
	Kind string `json:"kind,omitempty"`
	// Names restricts the selection; empty for all.
	Names []string `json:"names,omitempty"`
	// Namespaces restricts the selection; empty for all.
	Namespaces []string `json:"namespaces,omitempty"`
}
