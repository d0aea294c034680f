"""The report page in headless Chromium: numbers, sliders, keyboard, network and console."""

import json
import shutil

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

import recuse
from recuse import RiskRejector, datasets, report
from recuse.report.content import row_decisions
from report_runs import accepted_rows

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver")

(X, Y), _, (NEW, Y_NEW) = datasets.split(datasets.load("auto_mpg"), repeat=0)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    model = RiskRejector(ExtraTreesRegressor(20), cost=6.0, cv=3, random_state=0).fit(X, Y)
    path = tmp_path_factory.mktemp("model") / "cars.recuse"
    recuse.save(model, path)
    return recuse.load(path)


@pytest.fixture(scope="module")
def page(served, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    money = {"error": 2, "error_cost": 10, "review_cost": 15}
    report.write(served, NEW, Y_NEW, path, group=["origin", "model_year"], training=(X, Y), money=money)
    return path


@pytest.fixture(scope="module")
def browser(page):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    driver.get(page.as_uri())
    yield driver
    driver.quit()


def shown(browser):
    cells = browser.find_elements(By.CSS_SELECTOR, "#measures td[data-value]")
    return {
        cell.get_attribute("id").removeprefix("measure-"): float(cell.get_attribute("data-value")) for cell in cells
    }


def move(browser, slider, value):
    browser.execute_async_script(
        """
        const [id, value, done] = arguments, slider = document.getElementById(id);
        slider.value = value;
        slider.dispatchEvent(new Event('input', {bubbles: true}));
        requestAnimationFrame(() => requestAnimationFrame(done));
        """,
        slider,
        value,
    )


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-12, nan_ok=True), name


def test_the_numbers_at_every_position_are_those_of_evaluate(browser, served):
    positions = browser.execute_script("return window.report.positions")
    assert len(positions) == 101
    found = browser.execute_script(
        "return window.report.positions.map(p => JSON.stringify(window.report.measures(p, 1)))"
    )
    for position, text in zip(positions, found, strict=True):
        measures = {name: np.nan if value is None else value for name, value in json.loads(text).items()}
        same(measures, served.decide(NEW, cost=position).evaluate(Y_NEW))


def test_the_slider_of_the_cost_moves_the_numbers_of_the_page(browser, served):
    positions = browser.execute_script("return window.report.positions")
    before = browser.find_element(By.ID, "words").text
    for place in (10, 90, 55):
        move(browser, "cost", place)
        same(shown(browser), served.decide(NEW, cost=positions[place]).evaluate(Y_NEW))
    assert browser.find_element(By.ID, "words").text != before
    browser.find_element(By.ID, "reset").click()
    move(browser, "budget", 100)
    same(shown(browser), served.decide(NEW, cost=6.0).evaluate(Y_NEW))


def test_the_slider_of_the_budget_keeps_the_share(browser, served):
    decision = served.decide(NEW)
    loss = decision.loss(decision.prediction - np.asarray(Y_NEW))
    rows = row_decisions(served, NEW, decision, loss)
    for share in (0, 10, 35):
        move(browser, "budget", share)
        accepted = accepted_rows(rows, 6.0, share / 100)
        found = shown(browser)
        assert found["rejection_rate"] == pytest.approx(1 - accepted.mean())
        assert found["rejection_rate"] <= share / 100 + 1e-9
        assert found["rcr_loss"] == pytest.approx(np.where(accepted, rows.loss, 6.0).mean(), rel=1e-9)
    move(browser, "budget", 100)


def test_the_keyboard_moves_the_sliders(browser):
    slider = browser.find_element(By.ID, "cost")
    before = slider.get_attribute("value")
    slider.send_keys(Keys.ARROW_RIGHT)
    assert int(slider.get_attribute("value")) == int(before) + 1
    assert slider.get_attribute("aria-valuetext")
    slider.send_keys(Keys.ARROW_LEFT)


def test_groups_follow_the_sliders(browser):
    move(browser, "budget", 0)
    cells = browser.find_elements(By.CSS_SELECTOR, "#groups tbody tr td:nth-child(3)")
    assert {cell.text for cell in cells} == {"0%"}
    move(browser, "budget", 100)
    cells = browser.find_elements(By.CSS_SELECTOR, "#groups tbody tr td:nth-child(3)")
    assert {cell.text for cell in cells} != {"0%"}


def test_every_figure_and_control_has_a_name(browser):
    unnamed = browser.execute_script(
        """
        const named = each => each.getAttribute('aria-label') || each.labels?.length || each.textContent.trim();
        return [...document.querySelectorAll('svg[role=img], input, button')].filter(each => !named(each)).length;
        """
    )
    assert unnamed == 0
    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_window(browser, width):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_no_request_leaves_the_page_and_the_console_is_empty(browser, page):
    browser.get(page.as_uri())
    move(browser, "cost", 20)
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = {each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"}
    assert {url for url in urls if not url.startswith(("file:", "data:"))} == set()
    assert browser.get_log("browser") == []
