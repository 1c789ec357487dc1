/** Holds what is measured of instances, on `metric.instance.<projectName>`: each point is the object that is answered, as JSON. */
export const metricStream = 'METRICS'

/** On each point: the uid of the instance, for another may have had its name before. */
export const measuredHeader = 'Busbar-Instance'
