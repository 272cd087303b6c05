// Package charts has charts for tests and the demo, each as an author of charts writes it, in a folder of its name, and hostile ones, which
// are made by code.
//
//   - plain: two ConfigMaps with values in them, and notes
//   - definitions: a CustomResourceDefinition in the folder crds, and an object of that kind in the templates
//   - hooks: hooks at every point of a release's life, with weights and delete policies: ConfigMaps, or Jobs with jobs.enabled
//   - failinghook: a hook that fails, by value: one that the API server rejects, or a Job that ends badly or never
//   - parent: sub-charts with conditions, tags, an alias, global and imported values
//   - schema: a schema of the values that requires some
//   - workload: a Deployment with a Service and, by value, a PersistentVolumeClaim, and when it gets ready
//   - large: templates that render a megabyte of values
//   - broken: templates that fail in the way that the value failure names, and with SyntaxError one that cannot be parsed
//   - lookup: a password that is made once and then looked up
//   - keep: an object that stays when the release goes
package charts
