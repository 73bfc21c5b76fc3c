"""Cycles of matrix products according to SCALE-Sim: a script for the environment of `bertha scalesim`.

Reads a JSON list of [rows, cols, m, n, k] from its input: the array's sides, and the product of an m x k by a k x n
matrix. Writes a JSON list of {"os": cycles, "ws": cycles, "is": cycles}: output, weight and input stationary,
from the first operand that enters to the last result that leaves, without stalls for memory.
"""

import contextlib
import json
import sys

from scalesim.compute.operand_matrix import operand_matrix
from scalesim.compute.systolic_compute_is import systolic_compute_is
from scalesim.compute.systolic_compute_os import systolic_compute_os
from scalesim.compute.systolic_compute_ws import systolic_compute_ws
from scalesim.layout_utils import layouts
from scalesim.scale_config import scale_config
from scalesim.topology_utils import topologies

DATAFLOWS = {"os": systolic_compute_os, "ws": systolic_compute_ws, "is": systolic_compute_is}


def cycles(rows, cols, m, n, k, dataflow) -> int:
    """Cycles of a product on an array of rows x cols."""
    config = scale_config()
    config.set_arr_dims(rows, cols)
    config.set_dataflow(dataflow)
    config.force_valid()
    topology = topologies()
    # A product is a convolution whose window is a whole row; the last two say that nothing is sparse.
    topology.load_layer_params_from_list("product", ["product", m, k, 1, k, 1, n, 1, 1, 1, 1])
    operands = operand_matrix()
    operands.set_params(config_obj=config, topoutil_obj=topology, layoututil_obj=layouts(), layer_id=0)
    matrices = {
        "ifmap_op_mat": operands.get_ifmap_matrix()[1],
        "filter_op_mat": operands.get_filter_matrix()[1],
        "ofmap_op_mat": operands.get_ofmap_matrix()[1],
    }
    system = DATAFLOWS[dataflow]()
    system.set_params(config_obj=config, **matrices)
    demand, _, _ = system.get_demand_matrices()  # one row a cycle
    return int(demand.shape[0])


if __name__ == "__main__":
    products = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):  # SCALE-Sim prints
        found = [{name: cycles(*product, name) for name in DATAFLOWS} for product in products]
    json.dump(found, sys.stdout)
