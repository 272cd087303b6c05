// Package archive reads packed charts: gzipped tar archives that anybody may have written. What it returns can be given to Helm's loader.
//
// Nothing is written to a disk, and what is refused is refused before Helm sees a byte of it. Read holds these lines:
//
//   - One folder with regular files. Links, devices, sparse files, names that lead elsewhere or mean another name, and names that come twice
//     are refused, though no file is created, because another tool might read the archive differently.
//   - Limits hold for everything together: for the archive, the archives of sub-charts in charts/, and the archives in those. Helm's loader
//     unpacks sub-charts by itself; they are read here first, by the same rules, and handed on as they are.
//   - YAML that Helm parses may not grow by aliases and directives, nor consist of more nodes than Helm parses in about 100 MB.
//   - A values.schema.json refers only to itself. Helm would read files and fetch addresses that it names.
//   - Charts that Chart.yaml lists as dependencies are in charts/. Nobody downloads them.
//
// Templates are not looked at: what they may use while they are rendered is for others to limit. So is how long it takes to validate values
// against a schema, which has no bound that could be told from its size.
package archive
