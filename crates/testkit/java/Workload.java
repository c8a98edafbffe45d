class Workload {}
