"""The review page in headless Chromium: two reviewers, keyboard, blind answers, key and skipped rows."""

import shutil

import pytest

from recuse.reviews import ReviewQueue
from review_runs import record, rooms

webdriver = pytest.importorskip("selenium.webdriver")
pytest.importorskip("fastapi")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

from recuse.serving import Settings, create_app  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver")


def open_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1100,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(DRIVER))


@pytest.fixture(scope="module")
def browsers():
    both = [open_browser(), open_browser()]
    yield both
    for each in both:
        each.quit()


@pytest.fixture
def service(model_path, loaded, serve, tmp_path):
    """A service whose queue has twelve rows."""
    path = tmp_path / "reviews.sqlite"
    with ReviewQueue.open(path, audit_share=1.0) as queue:
        record(queue, loaded, rooms(12, seed=1))
    with serve(create_app(Settings({"rooms": model_path}, queue=path))) as address:
        yield address, path


def wait(browser, condition):
    return WebDriverWait(browser, 60, 0.05).until(lambda _: condition())


def text(browser, name):
    return browser.find_element(By.ID, name).text


def visible(browser, name):
    return browser.find_element(By.ID, name).is_displayed()


def item(browser):
    return browser.execute_script("return state.busy ? null : state.item && state.item.id")


def sign_in(browser, address, name, order="saving"):
    browser.get(f"{address}/review")
    browser.execute_script("localStorage.clear(); sessionStorage.clear()")
    browser.get(f"{address}/review")
    wait(browser, lambda: visible(browser, "start"))
    browser.find_element(By.CSS_SELECTOR, f"input[value={order}]").click()
    browser.find_element(By.ID, "name").send_keys(name, Keys.ENTER)


def test_two_reviewers_never_get_the_same_row(browsers, service):
    address, path = service
    for browser, name in zip(browsers, ("Ada", "Ben"), strict=True):
        sign_in(browser, address, name)
    seen = []
    for turn in range(12):
        browser = browsers[turn % 2]
        current = wait(browser, lambda browser=browser: item(browser))
        assert current not in seen
        seen.append(current)
        browser.switch_to.active_element.send_keys("12.5", Keys.ENTER)  # the field has the focus
        wait(browser, lambda browser=browser, current=current: not item(browser) or item(browser) != current)
    for browser in browsers:
        wait(browser, lambda browser=browser: visible(browser, "empty"))
        assert browser.get_log("browser") == []
    with ReviewQueue.open(path) as queue:
        assert [queue.progress(name).answered_by_you for name in ("Ada", "Ben")] == [6, 6]
        assert queue.progress().waiting == 0


def test_a_wrong_number_keeps_the_focus_and_cells_are_shown_as_they_are(browsers, service):
    (browser, _), (address, _) = browsers, service
    sign_in(browser, address, "Ada")
    wait(browser, lambda: item(browser))
    browser.execute_script(
        "state.item = {...state.item, target: 'price', row: {year: 1976, price: 1234567.89}};showItem(state.item)"
    )
    assert [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "#cells dd")] == ["1976", "1234567.89"]
    browser.switch_to.active_element.send_keys("about 9", Keys.ENTER)
    wait(browser, lambda: "not “about 9”" in text(browser, "problem"))
    assert browser.switch_to.active_element.get_attribute("id") == "value"


def test_the_prediction_is_shown_after_the_answer_only(browsers, service):
    (browser, _), (address, path) = browsers, service
    sign_in(browser, address, "Ada", order="age")
    first = wait(browser, lambda: item(browser))
    given = browser.execute_script("return state.item")
    assert not {"prediction", "rejected", "expected_loss", "cost", "score", "probability"} & given.keys()
    assert not visible(browser, "outcome")
    assert {"area", "city", "age"} == {cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "#cells dt")}
    browser.switch_to.active_element.send_keys("about 7", Keys.ENTER)
    wait(browser, lambda: "not “about 7”" in text(browser, "problem"))
    assert item(browser) == first
    browser.switch_to.active_element.clear()
    browser.find_element(By.ID, "value").send_keys("7", Keys.ENTER)
    wait(browser, lambda: visible(browser, "outcome"))
    with ReviewQueue.open(path) as queue:
        saved = queue.progress("Ada").saved
    shown = float(text(browser, "saved").replace(",", ""))
    assert shown == pytest.approx(saved, rel=0.01)
    assert "Loss of the model" in text(browser, "pairs")


def test_skipped_rows_come_back_when_asked_for(browsers, service):
    (browser, _), (address, _) = browsers, service
    sign_in(browser, address, "Ada")
    for _ in range(12):
        current = wait(browser, lambda: item(browser))
        browser.find_element(By.ID, "skip").click()
        wait(browser, lambda current=current: item(browser) != current)
    wait(browser, lambda: visible(browser, "again"))
    assert text(browser, "again") == "Show 12 rows that I skipped"
    browser.find_element(By.ID, "again").click()
    assert wait(browser, lambda: item(browser))


def test_the_page_asks_for_a_key(browsers, model_path, loaded, serve, tmp_path):
    with ReviewQueue.open(tmp_path / "reviews.sqlite", audit_share=1.0) as queue:
        record(queue, loaded, rooms(3, seed=1))
    app = create_app(Settings({"rooms": model_path}, queue=tmp_path / "reviews.sqlite"))

    async def locked(scope, receive, send):
        """Answer like a service, or a proxy before it, that needs a key."""
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and scope["path"] != "/review" and headers.get(b"x-api-key") != b"secret":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b'{"error": "needs a key"}'})
        else:
            await app(scope, receive, send)

    browser, _ = browsers
    with serve(locked) as address:
        sign_in(browser, address, "Ada")
        for key in ("wrong", "secret"):
            wait(browser, lambda: browser.find_element(By.ID, "key").is_displayed())
            assert browser.find_element(By.ID, "key-alert").is_displayed() == (key == "secret")
            browser.find_element(By.ID, "key").send_keys(key, Keys.ENTER)
            wait(browser, lambda: item(browser) or browser.find_element(By.ID, "key-alert").is_displayed())
        assert wait(browser, lambda: item(browser))
        assert browser.execute_script("return sessionStorage.getItem('recuse-key')") == "secret"
        browser.get("about:blank")


def test_leaving_the_page_releases_the_row(browsers, service):
    (browser, _), (address, path) = browsers, service
    sign_in(browser, address, "Ada")
    wait(browser, lambda: item(browser))
    with ReviewQueue.open(path) as queue:
        assert queue.progress().held == 1
        browser.get("about:blank")
        wait(browser, lambda: queue.progress().held == 0)


def test_a_phone_needs_no_sideways_scrolling(browsers, service):
    (browser, _), (address, _) = browsers, service
    sign_in(browser, address, "Ada")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    )
    wait(browser, lambda: item(browser))
    widths = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert widths[0] <= widths[1] == 360
